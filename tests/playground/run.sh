#!/bin/sh
# run.sh thalweg [folder]: installs the pinned driver when it is missing, then runs the tests of the chat page against
# `thalweg serve` with a scripted model. With a folder, screenshots are left there to be looked at. The browser is
# $THALWEG_CHROMIUM, or chromium of the system.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
THALWEG=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
SCREENSHOTS=${2:+$(mkdir -p "$2" && cd "$2" && pwd)}
export THALWEG SCREENSHOTS
cd "$here"
if [ ! -d node_modules/playwright-core ]; then
  npm install --no-package-lock --no-audit --no-fund --ignore-scripts --omit=dev
fi
exec node --test --test-reporter=spec playground.test.mjs
