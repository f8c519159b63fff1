#!/usr/bin/env bash
# fuzz.sh <build folder> <seconds>: runs each fuzz target for that long. What a target finds out about
# its input format stays in <build folder>/corpus/<target>; inputs that break it go to
# <build folder>/crashes. Seeds come from tests/data/fuzz/<target> where there are any.
set -euo pipefail

build=$1
seconds=$2
failed=()
mkdir -p "$build/crashes"
for target in "$build"/fuzzers/*; do
  if [ ! -x "$target" ]; then
    echo "fuzz: no fuzz target in $build/fuzzers" >&2
    exit 1
  fi
  name=$(basename "$target")
  mkdir -p "$build/corpus/$name"
  folders=("$build/corpus/$name")
  [ ! -d "tests/data/fuzz/$name" ] || folders+=("tests/data/fuzz/$name")
  echo "fuzz: $name for $seconds s"
  "$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="$build/crashes/$name-" "${folders[@]}" || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "fuzz: broken: ${failed[*]}; inputs in $build/crashes" >&2
  exit 1
fi
