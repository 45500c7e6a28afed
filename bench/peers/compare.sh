#!/usr/bin/env bash
# A whole training step of GPT-2 124M in Lathe and in others, in turns, on the same threads.
#
#   bench/peers/compare.sh [--dtype bf16|fp32|mxfp8|nvfp4] [--threads N] [--batch 8] [--rounds 5]
#                          [--emulation lean|public|microxcaling] [--microxcaling FOLDER]
#                          [--python PYTHON] [--no-compile] [--llmc PROGRAM] [--lathe BENCH_STEP]
#
# The dtype is the name of Lathe's recipe, and of how torch_gpt2.py multiplies: mxfp8 and nvfp4 are
# emulated there. How, --emulation says: lean (the default), in BF16 and compiled; public, as
# published emulators do it, in FP32 and operation by operation; microxcaling, mxfp8 only, by that
# library's linear layer. FOLDER is your clone of it, from the repository's root if its path is
# relative; naming one chooses it.
#
# PYTHON is an interpreter that has torch (default: python3). PROGRAM is llm.c's CPU trainer
# (train_gpt2), built by you; it runs by itself at the end, on its own data and batch of 4 x 64
# unless you changed them, and is compared by tokens per second.
#
# Before and after each step of anyone the speed of a small product is measured: a window whose
# probes fall under 80 % of the best one seen is called busy, and medians are given for both kinds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

dtype=bf16 threads=$(nproc) batch=8 rounds=5 python=python3 llmc='' lathe=build/release/bench_step
emulation='' microxcaling='' torch_flags=()
while (($#)); do
  case $1 in
    --dtype) dtype=$2 && shift ;;
    --emulation) emulation=$2 && shift ;;
    --microxcaling) microxcaling=$2 && shift ;;
    --threads) threads=$2 && shift ;;
    --batch) batch=$2 && shift ;;
    --rounds) rounds=$2 && shift ;;
    --python) python=$2 && shift ;;
    --llmc) llmc=$2 && shift ;;
    --lathe) lathe=$2 && shift ;;
    --no-compile) torch_flags+=(--no-compile) ;;
    *) echo "error: unknown option $1; the head of this file lists them" >&2 && exit 2 ;;
  esac
  shift
done

case $dtype in
  bf16 | fp32 | mxfp8 | nvfp4) ;;
  *) echo "error: --dtype is bf16, fp32, mxfp8 or nvfp4, not $dtype" >&2 && exit 2 ;;
esac

emulation=${emulation:-${microxcaling:+microxcaling}}
case $dtype:${emulation:=lean} in
  *:lean | mxfp8:public | nvfp4:public | mxfp8:microxcaling) ;;
  *)
    echo "error: --emulation is lean or public with mxfp8 and nvfp4, microxcaling with mxfp8;" \
      "not $emulation with $dtype" >&2 && exit 2
    ;;
esac
torch_flags+=(--emulation "$emulation" ${microxcaling:+--microxcaling "$microxcaling"})
label=$dtype
[[ $dtype == bf16 || $dtype == fp32 ]] || label+=", emulation $emulation"

work=$(mktemp -d)
children=()
finish() {
  ((${#children[@]} == 0)) || kill "${children[@]}" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

# start NAME FD COMMAND…: a program that speaks the line protocol; FD and FD + 1 become its ends.
start() {
  local name=$1 in=$2 out=$(($2 + 1)) line
  shift 2
  mkfifo "$work/$name.in" "$work/$name.out"
  "$@" <"$work/$name.in" >"$work/$name.out" &
  children+=($!)
  eval "exec $in>'$work/$name.in' $out<'$work/$name.out'"
  until IFS= read -r -u "$out" line && [[ $line == ready ]]; do
    kill -0 "${children[-1]}" 2>/dev/null || { echo "error: $name did not start" >&2 && exit 1; }
  done
}

# ask FD N: N steps; leaves their seconds in $answer and what follows "end" in $peak.
ask() {
  local line
  answer='' peak=''
  echo "$2" >&"$1"
  while IFS= read -r -u $(($1 + 1)) line; do
    if [[ $line == end* ]]; then
      peak=${line#end}
      peak=${peak# }
      return
    fi
    answer=$line
  done
  echo "error: a program ended in the middle of a step" >&2
  exit 1
}

start lathe 3 "$lathe" --recipe "$dtype" --threads "$threads" --batch "$batch" \
  --micro-batch "$batch"
start torch 5 "$python" bench/peers/torch_gpt2.py --dtype "$dtype" --threads "$threads" \
  --batch "$batch" "${torch_flags[@]}"

echo "Lathe and PyTorch, $label, batch $batch, $threads threads"
for ((round = 1; round <= rounds; ++round)); do
  order=(lathe torch)
  ((round % 2 == 0)) && order=(torch lathe)
  for name in "${order[@]}"; do
    ask 3 0 && before=$peak
    if [[ $name == lathe ]]; then ask 3 1; else ask 5 1; fi
    seconds=$answer
    ask 3 0
    echo "$round $name $seconds $before $peak" | tee -a "$work/windows"
  done
done

awk -v tokens=$((batch * 1024)) -v label="$label" '
  function median(v, n,   i, j, t) {
    for (i = 2; i <= n; ++i)
      for (j = i; j > 1 && v[j - 1] > v[j]; --j) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return n ? v[int((n + 1) / 2)] : 0
  }
  { seconds[$1, $2] = $3; low = $4 < $5 ? $4 : $5; probe[NR] = low
    if ($4 > best) best = $4
    if ($5 > best) best = $5
    name[NR] = $2; took[NR] = $3; if ($1 > rounds) rounds = $1 }
  END {
    split("lathe torch", names, " "); split("all quiet busy", kinds, " ")
    for (k = 1; k <= 3; ++k)
      for (p = 1; p <= 2; ++p) {
        n = 0
        for (i = 1; i <= NR; ++i) {
          kind = probe[i] >= 0.8 * best ? "quiet" : "busy"
          if (name[i] == names[p] && (kinds[k] == "all" || kinds[k] == kind)) v[++n] = took[i]
        }
        if (n) { m = median(v, n)
          printf "%-6s %-6s %2d windows  median %8.3f s  %8.1f tokens/s\n", names[p], kinds[k], n, m, tokens / m }
      }
    for (r = 1; r <= rounds; ++r) ratio[r] = seconds[r, "torch"] / seconds[r, "lathe"]
    printf "paired ratio torch / lathe, %s: ", label
    printf "median %.2f of %d rounds\n", median(ratio, rounds), rounds
  }' "$work/windows"

if [[ -n $llmc ]]; then
  echo "llm.c: $llmc"
  (cd "$(dirname "$llmc")" && OMP_NUM_THREADS=$threads timeout 600 "./$(basename "$llmc")") |
    tee "$work/llmc" | grep -E '^step' | tail -n 20 || true
  # "step 3: train loss 4.1 (took 1234.5 ms)"
  awk '/took/ { for (i = 1; i < NF; ++i) if ($i == "(took") print $(i + 1) }' "$work/llmc" |
    sort -n | awk '{ v[NR] = $1 } END { if (NR) printf "llm.c: median %.1f ms a step\n", v[int((NR + 1) / 2)] }'
fi
