#!/usr/bin/env bash
# fuzz.sh <build folder> <seconds>: runs each fuzz target for that long. What a target finds out about
# its input format stays in <build folder>/corpus/<target>; inputs that break it go to
# <build folder>/crashes. The seeds: what the target parses in the golden checkpoints, and the files of
# tests/data/fuzz/<target>, inputs that once broke it among them.
set -euo pipefail

build=$1
seconds=$2
failed=()

# Copies the seeds of a target into its corpus.
seed() {
  if [ -d "tests/data/fuzz/$1" ]; then cp "tests/data/fuzz/$1"/* "$build/corpus/$1/"; fi
  case "$1" in
    config_fuzz) pattern=config.json ;;
    shard_index_fuzz) pattern=model.safetensors.index.json ;;
    tokenizer_json_fuzz) pattern=tokenizer.json ;;
    json_fuzz) pattern=generation_config.json ;;
    *) return 0 ;;
  esac
  for folder in tests/data/*/model; do
    cp "$folder/$pattern" "$build/corpus/$1/$(basename "$(dirname "$folder")")-$pattern"
  done
}

mkdir -p "$build/crashes"
for target in "$build"/fuzzers/*; do
  if [ ! -x "$target" ]; then
    echo "fuzz: no fuzz target in $build/fuzzers" >&2
    exit 1
  fi
  name=$(basename "$target")
  mkdir -p "$build/corpus/$name"
  seed "$name"
  echo "fuzz: $name for $seconds s"
  "$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="$build/crashes/$name-" "$build/corpus/$name" || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "fuzz: broken: ${failed[*]}; inputs in $build/crashes" >&2
  exit 1
fi
