#!/bin/bash
# Prefill at growing lengths and decode at growing fixed batches, by the time of engine steps, with and without drafts:
# one point a line of NAME.csv, and curves of it by gnuplot. Started again, it goes on where it ended.
#
#   scripts/run_sweep.sh --program build/bin/thalweg --out docs/sweep --name cpu-nano
#   scripts/run_sweep.sh --program build/bin/thalweg --out docs/sweep --name cpu-released --synthetic --layers 2 --experts 32
#
# docs/evaluation.md says what the columns mean.
set -euo pipefail

program=build/bin/thalweg out=docs/sweep name=sweep backend=cpu synthetic=0 layers=0 experts=0 devices=1 repeat_tokens=64
prompts=256,512,1024,2048,4096 batches=1,2,4,8,16,32,64 context=1024 acceptance=3.51 note="" drafts=1 budget=0 model=()

usage() {
  sed -n '2,9s/^# \{0,1\}//p' "$0"
  cat <<'END'

  --program "CMD"    thalweg, or a launcher in front of it
  --out DIR --name NAME   where NAME.csv, NAME.gnuplot and NAME-*.svg go
  --backend NAME     cpu, cuda, reference
  --model PATH       a checkpoint; without it nano
  --synthetic        layers of released size with weights made up; --layers N, --experts N (0: as fit)
  --prompts A,B,...  prompt lengths of prefill
  --batches A,B,...  sequences that decode together
  --context N        tokens before the decode steps
  --tokens N         decode steps of a point (checkpoints), tokens of an answer with drafts
  --acceptance X     with --synthetic: tokens that a step with a whole draft block is taken to bring
  --no-drafts        leaves out steps with drafts
  --devices N        tokens per second are divided by so many
  --note TEXT        goes into the header of the CSV
  --budget SECONDS   no point begins later than that; the same command goes on with what is missing (0: no limit)
  --quick            few short points, to try it out
END
}

die() { echo "run_sweep: $*" >&2; exit 2; }

while [ $# -gt 0 ]; do
  case "$1" in
    --synthetic) synthetic=1; shift; continue ;;
    --no-drafts) drafts=0; shift; continue ;;
    --quick) prompts=256,1024,4096 batches=1,4,16,64 repeat_tokens=32; shift; continue ;;
    -h|--help) usage; exit 0 ;;
  esac
  [ $# -ge 2 ] || die "$1 needs a value (see --help)"
  case "$1" in
    --program) program=$2 ;;
    --out) out=$2 ;;
    --name) name=$2 ;;
    --backend) backend=$2 ;;
    --model) model=(--model "$2") ;;
    --layers) layers=$2 ;;
    --experts) experts=$2 ;;
    --prompts) prompts=$2 ;;
    --batches) batches=$2 ;;
    --context) context=$2 ;;
    --tokens) repeat_tokens=$2 ;;
    --acceptance) acceptance=$2 ;;
    --devices) devices=$2 ;;
    --note) note=$2 ;;
    --budget) budget=$2 ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
  shift 2
done

command -v python3 >/dev/null || die "python3 reads the figures: install it"
$program --version >/dev/null 2>&1 || die "cannot run $program: give --program"
mkdir -p "$out"
csv=$out/$name.csv
settings="backend=$backend synthetic=$synthetic layers=$layers experts=$experts context=$context tokens=$repeat_tokens acceptance=$acceptance devices=$devices model=${model[*]:-nano}"

# A file of other settings is left alone.
if [ -s "$csv" ]; then
  grep -qxF "# settings: $settings" "$csv" || die "$csv was made with other settings: name another, or move it away"
else
  {
    echo "# thalweg $($program --version), $(date -u +%Y-%m-%d), $(nproc) cores: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
    echo "# settings: $settings"
    [ -z "$note" ] || echo "# note: $note"
    echo "phase,drafts,batch,context,ms_per_step,tokens_per_s_per_device,tokens_per_s_per_user,share"
  } > "$csv"
fi

# Points that are there, or for which no time is left, are not measured. A point takes as long as it takes: those before it
# say how long that may be.
left_out=0 point_began=0
known() {
  grep -q "^$1,$2,$3,$4," "$csv" && return 0
  if [ "$budget" -gt 0 ] && [ "$SECONDS" -ge "$budget" ]; then
    left_out=$((left_out + 1))
    return 0
  fi
  point_began=$SECONDS
  return 1
}

# Figures on stdin -> the CSV line of the wanted phase, of several draft lengths the fastest. $1: drafts, $2: phase wanted,
# $3: phase written.
rows() {
  python3 -c '
import json, sys
drafts, wanted, written, devices = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
figures = [f for f in json.load(sys.stdin) if f["phase"] == wanted or wanted == "drafts" and f["phase"].startswith("drafts ")]
for f in sorted(figures, key=lambda f: -f["tokens_per_s"])[:1]:
    rate, batch = f["tokens_per_s"], f["batch"]
    print("%s,%s,%d,%d,%.6g,%.6g,%.6g,%.4g" % (written, drafts, batch, f["context"], f["ms_per_step"], rate / devices,
                                               rate / batch if written == "decode" else 0, f["share"]))
' "$1" "$2" "$3" "$devices"
}

bench() {
  $program bench model --backend "$backend" "${model[@]}" --json "$@" 2>"$out/$name.err"
}

# A point is written when it is whole: a run that is stopped leaves no half of one.
add() {
  [ -n "$1" ] || die "no figure came back: $(tail -1 "$out/$name.err" 2>/dev/null)"
  printf '%s\n' "$1" >> "$csv"
  printf '%s   (%d s)\n' "$1" $((SECONDS - point_began))
}

shape=(--synthetic --layers "$layers" --experts "$experts" --context "$context")

for prompt in ${prompts//,/ }; do
  known prefill off 1 "$prompt" && continue
  if [ "$synthetic" = 1 ]; then
    add "$(bench "${shape[@]}" --batch 1 --prompt "$prompt" | rows off "prefill encoder" prefill)"
  else
    add "$(bench --batch 1 --prompt "$prompt" --tokens 4 | rows off prefill prefill)"
  fi
done

for batch in ${batches//,/ }; do
  known decode off "$batch" "$context" && continue
  if [ "$synthetic" = 1 ]; then
    add "$(bench "${shape[@]}" --batch "$batch" --prompt 1 | rows off decode decode)"
  else
    add "$(bench --batch "$batch" --prompt "$context" --tokens "$repeat_tokens" | rows off decode decode)"
  fi
done

# With drafts: of made-up layers whole blocks at the acceptance that is given; of a checkpoint the engine with the blocks
# that it finds worth it, on random prompts with one prefix (the steps of a prompt are few then); mean time between tokens.
draft_point() {
  if [ "$synthetic" = 1 ]; then
    bench "${shape[@]}" --batch "$1" --prompt 1 --acceptance "$acceptance" | rows on drafts decode
    return
  fi
  # What steps cost is measured first, for as many sequences as may run: no more than are asked for.
  $program bench throughput --backend "$backend" "${model[@]}" --json --nextn 5 --concurrency "$1" --requests "$1" \
    --max-sequences "$1" --max-rows $(($1 > 8 ? 8 * $1 : 64)) --cache-tokens $((($1 + 1) * (context + repeat_tokens + 128))) \
    --shared-prefix $((context > 16 ? context - 16 : 1)) --prompt-tokens 16 --output-tokens "$repeat_tokens" 2>"$out/$name.err" |
    python3 -c '
import json, sys
f, batch, context, devices = json.load(sys.stdin), int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
print("decode,on,%d,%d,,%.6g,%.6g," % (batch, context, 1e3 * batch / f["itl_ms_mean"] / devices, 1e3 / f["itl_ms_mean"]))
' "$1" "$context" "$devices"
}

if [ "$drafts" = 1 ]; then
  for batch in ${batches//,/ }; do
    known decode on "$batch" "$context" || add "$(draft_point "$batch")"
  done
fi

rm -f "$out/$name.err"
[ "$left_out" = 0 ] || echo "run_sweep: $left_out points are left out, $SECONDS s are over: run it again to go on" >&2
cat > "$out/$name.gnuplot" <<END
set datafile separator ','
set datafile commentschars '#'
set terminal svg size 720,420
set grid
set key bottom left
off(x) = strcol(1) eq 'decode' && strcol(2) eq 'off' ? x : NaN
on(x) = strcol(1) eq 'decode' && strcol(2) eq 'on' ? x : NaN
prefill(x) = strcol(1) eq 'prefill' ? x : NaN
set output '$name-decode.svg'
set title '$name: decode at fixed batches'
set xlabel 'tokens/s of a user'
set ylabel 'tokens/s of a device'
plot '$name.csv' using (off(\$7)):6 with linespoints pt 7 ps 0.6 title 'without drafts', \\
     '' using (on(\$7)):6 with linespoints pt 5 ps 0.6 title 'with drafts'
set output '$name-step.svg'
set title '$name: time of a decode step'
set xlabel 'sequences'
set ylabel 'ms'
set logscale xy
plot '$name.csv' using (off(\$3)):5 with linespoints pt 7 ps 0.6 title 'without drafts', \\
     '' using (on(\$3)):5 with linespoints pt 5 ps 0.6 title 'with drafts'
unset logscale
set output '$name-prefill.svg'
set title '$name: prefill'
set xlabel 'tokens of the prompt'
set ylabel 'tokens/s of a device'
set yrange [0:*]
plot '$name.csv' using (prefill(\$4)):6 with linespoints pt 7 ps 0.6 notitle
set output '$name-share.svg'
set title '$name: share of the limit of this machine'
set xlabel 'rows of a step'
set ylabel 'share'
set logscale x
plot '$name.csv' using (off(\$3)):8 with linespoints pt 7 ps 0.6 title 'decode', \\
     '' using (prefill(\$4)):8 with linespoints pt 5 ps 0.6 title 'prefill'
END
if command -v gnuplot >/dev/null; then
  # A curve without points is an error to gnuplot.
  (cd "$out" && gnuplot "$name.gnuplot" 2>/dev/null) || [ "$left_out" -gt 0 ] || die "gnuplot cannot draw $out/$name.gnuplot"
else
  echo "run_sweep: gnuplot is missing: no curves, but $csv and $out/$name.gnuplot are there" >&2
fi
