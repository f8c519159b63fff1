#!/bin/sh
# run.sh thalweg [folder]: installs the pinned driver when it is missing, then runs the tests of the chat page against
# `thalweg serve` with a scripted model. With a folder, screenshots are left there to be looked at. The browser is
# $THALWEG_CHROMIUM, or chromium of the system. Ends with 77, skipped, where there is no browser, no Node.js that the
# driver runs on, or no driver to be had.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
THALWEG=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
SCREENSHOTS=${2:+$(mkdir -p "$2" && cd "$2" && pwd)}
export THALWEG SCREENSHOTS
cd "$here"
THALWEG_CHROMIUM=${THALWEG_CHROMIUM:-$(command -v chromium || true)}
export THALWEG_CHROMIUM
skip() {
  echo "skipped: $1" >&2
  exit 77
}
[ -x "$THALWEG_CHROMIUM" ] || skip "chromium is not installed"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "the driver wants Node.js 20 or newer"
if [ ! -e node_modules/.package-lock.json ]; then
  npm ci --no-audit --no-fund --ignore-scripts --omit=dev || skip "npm could not install the driver"
fi
exec node --test --test-reporter=spec playground.test.mjs
