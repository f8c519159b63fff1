#!/bin/sh
# run.sh PROGRAM [TEST...]: installs the pinned clients when they are missing, starts the server with the
# model that comes with the program, and runs the clients against it. Ends with 77, skipped, where Node.js is too old or
# the clients are not to be had.
set -eu
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  echo "the clients want Node.js 20 or newer" >&2
  exit 77
fi
here=$(cd "$(dirname "$0")" && pwd)
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
cd "$here"
# Tests that run side by side wait here for the one that installs.
flock . sh -c '[ -e node_modules/.package-lock.json ] || npm ci --no-audit --no-fund --ignore-scripts --omit=dev' ||
  exit 77
log=$(mktemp)
# Nano writes whitespace for ever where it may, and what it draws is the same in every run.
"$program" serve --port 0 --served-name nano --engine-seed 1 --so-whitespace compact > "$log" 2>&1 &
server=$!
trap 'kill "$server" 2> /dev/null; wait "$server" 2> /dev/null || true; rm -f "$log"' EXIT
for _ in $(seq 600); do
  THALWEG_URL=$(sed -n 's/.* at \(http:\/\/[0-9.:]*\)$/\1/p' "$log")
  [ -z "$THALWEG_URL" ] || break
  kill -0 "$server" 2> /dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
export THALWEG_URL THALWEG_MODEL=nano
[ $# -gt 0 ] || set -- *.test.mjs
node --test --test-concurrency=1 "$@" || { tail -n 20 "$log" >&2; exit 1; }
