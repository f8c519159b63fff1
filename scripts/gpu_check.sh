#!/usr/bin/env bash
# gpu_check.sh [--sanitize] [folder]: checks the CUDA backend on the device of this machine.
# Without a folder it builds build-gpu first; a folder is one that was built, or holds the programs
# that are run (thalweg and the device tests; bin/ below it is looked into too).
#
# It verifies both golden folders, runs the device tests, benches layers of released size and a
# served model, and prints one table at the end: 9 minutes at most. With --sanitize it runs the
# kernel tests under compute-sanitizer (memcheck, racecheck, synccheck, initcheck) in place of all
# that. FILTER is handed to GoogleTest then, LIMIT is the seconds that one program may take.
set -uo pipefail
cd "$(dirname "$0")/.."

sanitize=no
if [ "${1:-}" = --sanitize ]; then
  sanitize=yes
  shift
fi
limit=${LIMIT:-180}
rows=()
failed=0

build() {
  cmake -S . -B build-gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DTHALWEG_CHECKS=ON -DTHALWEG_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:-90a}" > /dev/null || exit 1
  ninja -C build-gpu thalweg kernels_device_test cuda_product_test device_steps_test device_layers_test device_launched_test || exit 1
}
if [ $# -eq 0 ]; then
  build
  folder=build-gpu
else
  folder=$1
fi

# program NAME: where it is, nothing when it is not there.
program() {
  find "$folder" -type f -perm -u+x -name "$1" | head -n 1
}

# row NAME RESULT WHAT
row() {
  rows+=("$(printf '%-28s %-8s %s' "$1" "$2" "$3")")
  [ "$2" = fails ] && failed=1
  return 0
}

# check NAME LINE COMMAND...: runs it, and notes the last line of its output that LINE matches.
check() {
  local name=$1 line=$2 log begin status result=ok
  shift 2
  if [ -z "${1:-}" ]; then
    row "$name" "-" "the program is not there"
    return
  fi
  log=$(mktemp)
  begin=$SECONDS
  timeout "$limit" "$@" > "$log" 2>&1
  status=$?
  [ $status -eq 0 ] || result=fails
  if [ "$result" = fails ]; then tail -n 15 "$log"; fi
  row "$name" "$result" "$(grep -E "$line" "$log" | tail -n 1) ($((SECONDS - begin)) s)"
  rm -f "$log"
}

# bench NAME COMMAND...: the same for programs whose whole output is wanted.
bench() {
  local name=$1 status
  shift
  echo "== $name"
  timeout "$limit" "$@"
  status=$?
  if [ $status -eq 0 ]; then row "$name" ok "above"; else row "$name" fails "exit status $status"; fi
}

table() {
  printf '\n%-28s %-8s %s\n' check result what
  printf '%s\n' "${rows[@]}"
  exit $failed
}

kernel_tests=(kernels_device_test cuda_product_test)
if [ $sanitize = yes ]; then
  for tool in memcheck racecheck synccheck initcheck; do
    for test in "${kernel_tests[@]}"; do
      path=$(program "$test")
      check "$tool $test" 'ERROR SUMMARY|RACECHECK SUMMARY|tests? ran' ${path:+compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$path" --gtest_filter="${FILTER:-*}"}
    done
  done
  table
fi

export THALWEG_NANO_DIR=${THALWEG_NANO_DIR:-$PWD/models/nano}
thalweg=$(program thalweg)
[ -n "$thalweg" ] || { echo "gpu_check: no thalweg below $folder" >&2; exit 2; }
for golden in tests/data/tiny-a tests/data/tiny-b; do
  check "verify $(basename $golden)" 'checks|hold|fail' "$thalweg" verify "$golden" --backend cuda
done
for test in "${kernel_tests[@]}" device_steps_test device_layers_test device_launched_test nccl_test; do
  check "$test" 'PASSED|FAILED|SKIPPED|tests ran' "$(program "$test")"
done
bench "layers of released size" "$thalweg" bench model --synthetic --shape released --backend cuda \
  --batch 1,8,64 --context 8192 --prompt 8192
for sequences in 1 64; do
  check "nano, $sequences sequences" 'tok|output' "$thalweg" bench throughput --backend cuda \
    --requests "$sequences" --max-sequences "$sequences" --prompt-tokens 64 --output-tokens 256
done
table
