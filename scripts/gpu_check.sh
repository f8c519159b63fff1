#!/usr/bin/env bash
# gpu_check.sh [--sanitize] [folder]: checks the CUDA backend on the device of this machine.
# Without a folder it builds build-gpu first (build-watched to sanitize); a folder is one that was
# built, or holds the programs that are run (thalweg and the device tests; bin/ below it is looked
# into too).
#
# It verifies both golden folders, runs the device tests, benches layers of released size and a
# served model, and prints one table at the end. A program may take LIMIT seconds (180), all
# together TOTAL (500, without the build): what would begin later is reported as not run.
#
# With --sanitize it runs the kernel tests under compute-sanitizer in place of all that, every tool
# over every program at the same time, each in SHARDS processes, of LIMIT seconds at most. A line of
# the table is a tool and a program. TOOLS, PROGRAMS and FILTER (of GoogleTest, for all programs)
# choose less; LOGS is a folder for what the tools printed. racecheck is content with the rings of
# the products in a build with THALWEG_CHECKED_RING alone (docs/verification.md).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

sanitize=no
if [ "${1:-}" = --sanitize ]; then
  sanitize=yes
  shift
fi
limit=${LIMIT:-180}
total=${TOTAL:-500}
rows=()
failed=0

# build FOLDER OPTION...
build() {
  local to=$1
  shift
  cmake -S . -B "$to" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTHALWEG_CHECKS=ON -DTHALWEG_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:-90a}" "$@" > /dev/null || exit 1
  local programs=(kernels_device_test cuda_product_test)
  if [ $sanitize = no ]; then
    programs+=(thalweg device_steps_test device_layers_test device_launched_test rank_device_test)
  fi
  ninja -C "$to" "${programs[@]}" || exit 1
}
if [ $# -gt 0 ]; then
  folder=$1
elif [ $sanitize = yes ]; then
  folder=build-watched
  build $folder -DTHALWEG_CHECKED_RING=ON
else
  folder=build-gpu
  build $folder
fi
SECONDS=0

# program NAME: where it is, nothing when it is not there.
program() {
  find "$folder" -type f -perm -u+x -name "$1" | head -n 1
}

# row NAME RESULT WHAT
row() {
  rows+=("$(printf '%-30s %-8s %s' "$1" "$2" "$3")")
  [ "$2" = fails ] && failed=1
  return 0
}

# left: seconds that the next program may take.
left() {
  local seconds=$((total - SECONDS))
  echo $((seconds < limit ? seconds : limit))
}

# check NAME LINE COMMAND...: runs it, and notes the last line of its output that LINE matches.
check() {
  local name=$1 line=$2 log begin status result=ok
  shift 2
  if [ -z "${1:-}" ]; then
    row "$name" "-" "the program is not there"
    return
  fi
  if [ "$(left)" -le 0 ]; then
    row "$name" fails "not run: the $total seconds are over"
    return
  fi
  log=$(mktemp)
  begin=$SECONDS
  timeout "$(left)" "$@" > "$log" 2>&1
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
  if [ "$(left)" -le 0 ]; then
    row "$name" fails "not run: the $total seconds are over"
    return
  fi
  echo "== $name"
  timeout "$(left)" "$@"
  status=$?
  if [ $status -eq 0 ]; then row "$name" ok "above"; else row "$name" fails "exit status $status"; fi
}

table() {
  printf '\n%-30s %-8s %s\n' check result what
  printf '%s\n' "${rows[@]}"
  exit $failed
}

kernel_tests=(kernels_device_test cuda_product_test)

# What the tools see of a program: every kernel body, by shapes that take them seconds.
declare -A watched=(
  [kernels_device_test]='-*Times*:RowOps.A*:Backends.*:VectorMath.*'
  [cuda_product_test]='*Small*'
)

# watch TOOL PROGRAM SHARD: one process under a tool; its output goes to a log, and its exit status
# and seconds to a file beside that. Tools that follow barriers are told how many a block has at
# most: their own count is too low where barriers are an array.
watch() {
  local tool=$1 test=$2 shard=$3 begin=$SECONDS options=() path
  path=$(program "$test")
  case $tool in racecheck | synccheck) options=(--num-cuda-barriers 128) ;; esac
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard timeout -k 5 "$limit" \
    "$sanitizer" --tool "$tool" --error-exitcode 9 --launch-timeout 120 --port "$port" \
    "${options[@]}" "$path" --gtest_filter="${FILTER:-${watched[$test]}}" \
    > "$logs/$tool-$test-$shard.log" 2>&1
  echo "$? $((SECONDS - begin))" > "$logs/$tool-$test-$shard.status"
}

# sum PATTERN FILE...: of the first number behind PATTERN in every line that has it.
sum() {
  local pattern=$1
  shift
  cat "$@" | grep -oE "${pattern}[0-9]+" | grep -oE '[0-9]+$' | awk '{ n += $1 } END { print n + 0 }'
}

# watched_row TOOL PROGRAM: its line of the table, and what was found.
watched_row() {
  local tool=$1 test=$2 result=ok what found passed seconds
  local all=("$logs/$tool-$test"-*.log)
  found=$(sum '(ERROR|RACECHECK) SUMMARY: ' "${all[@]}")
  passed=$(sum '  PASSED  \] ' "${all[@]}")
  seconds=$(cat "$logs/$tool-$test"-*.status | sort -k 2n | tail -n 1 | cut -d' ' -f2)
  what="$passed tests, $found findings ($seconds s)"
  if grep -q '^124 ' "$logs/$tool-$test"-*.status; then
    result=fails what="$what, out of time in$(grep -h 'RUN ' "${all[@]}" | tail -n 1 | cut -c13-)"
  elif grep -qv '^0 ' "$logs/$tool-$test"-*.status || [ "$found" != 0 ] || [ "$passed" = 0 ]; then
    result=fails
  fi
  if [ $result = fails ]; then
    grep -hE '^=+ (Error|Warning|Invalid|Uninit|Barrier|Program|.*(Read|Write) access)|FAILED  ' "${all[@]}" |
      sort | uniq -c | sort -rn | cut -c1-300 | head -n 20
  fi
  row "$tool $test" $result "$what"
}

sanitize() {
  local tool test shard
  sanitizer=$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")
  [ -x "$sanitizer" ] || { echo "gpu_check: no compute-sanitizer, neither on PATH nor at $sanitizer" >&2; exit 2; }
  logs=${LOGS:-$(mktemp -d)}
  mkdir -p "$logs"
  shards=${SHARDS:-$(($(nproc) < 16 ? 1 : 2))}
  port=50000
  read -ra tools <<< "${TOOLS:-memcheck racecheck synccheck initcheck}"
  read -ra tests <<< "${PROGRAMS:-${kernel_tests[*]}}"
  for test in "${tests[@]}"; do
    [ -n "$(program "$test")" ] || { echo "gpu_check: no $test below $folder" >&2; exit 2; }
    for tool in "${tools[@]}"; do
      for ((shard = 0; shard < shards; ++shard)); do
        watch "$tool" "$test" "$shard" &
        port=$((port + 20))
      done
    done
  done
  wait
  for tool in "${tools[@]}"; do
    for test in "${tests[@]}"; do watched_row "$tool" "$test"; done
  done
  table
}
if [ $sanitize = yes ]; then sanitize; fi

export THALWEG_NANO_DIR=${THALWEG_NANO_DIR:-$PWD/models/nano}
thalweg=$(program thalweg)
[ -n "$thalweg" ] || { echo "gpu_check: no thalweg below $folder" >&2; exit 2; }
for golden in tests/data/tiny-a tests/data/tiny-b; do
  check "verify $(basename $golden)" 'checks|hold|fail' "$thalweg" verify "$golden" --backend cuda
done
for test in "${kernel_tests[@]}" device_steps_test device_layers_test device_launched_test rank_device_test nccl_test; do
  check "$test" 'PASSED|FAILED|SKIPPED|tests ran' "$(program "$test")"
done
bench "layers of released size" "$thalweg" bench model --synthetic --shape released --backend cuda \
  --batch 1,8,64 --context 8192 --prompt 8192
for sequences in 1 64; do
  check "nano, $sequences sequences" 'tok|output' "$thalweg" bench throughput --backend cuda \
    --requests "$sequences" --max-sequences "$sequences" --prompt-tokens 64 --output-tokens 256
done
table
