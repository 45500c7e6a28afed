#!/usr/bin/env bash
# A whole training step of GPT-2 124M in several recipes, each in turns with BF16's.
#
#   bench/recipes.sh [--batch 8] [--rounds 3] [--threads N] [--lathe BENCH_STEP] RECIPE…
#
# Prints Markdown: the median over rounds of a step's seconds, and of its ratio to BF16's step
# beside it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

batch=8 rounds=3 threads=$(nproc) lathe=build/release/bench_step
recipes=()
while (($#)); do
  case $1 in
    --batch) batch=$2 && shift ;;
    --rounds) rounds=$2 && shift ;;
    --threads) threads=$2 && shift ;;
    --lathe) lathe=$2 && shift ;;
    -*) echo "error: unknown option $1; the head of this file lists them" >&2 && exit 2 ;;
    *) recipes+=("$1") ;;
  esac
  shift
done
((${#recipes[@]})) || { echo "error: name a recipe, such as mxfp8" >&2 && exit 2; }

# seconds IN OUT: one step of the program behind the descriptors.
seconds() {
  local line last=''
  echo 1 >&"$1"
  while IFS= read -r -u "$2" line && [[ $line != end* ]]; do last=$line; done
  echo "$last"
}

# ready OUT: waits for the program to say that it is.
ready() {
  local line
  until IFS= read -r -u "$1" line && [[ $line == ready ]]; do :; done
}

options=(--threads "$threads" --batch "$batch" --micro-batch "$batch")
coproc PLAIN { exec "$lathe" --recipe bf16 "${options[@]}"; }
exec 3>&"${PLAIN[1]}" 4<&"${PLAIN[0]}"
ready 4
seconds 3 4 >/dev/null
echo "| recipe | s a step | x BF16 |"
echo "|---|---|---|"
for recipe in "${recipes[@]}"; do
  work=$(mktemp -d)
  mkfifo "$work/in" "$work/out"
  "$lathe" --recipe "$recipe" "${options[@]}" <"$work/in" >"$work/out" &
  exec 5>"$work/in" 6<"$work/out"
  rm -r "$work"
  ready 6
  seconds 5 6 >/dev/null
  for ((round = 1; round <= rounds; ++round)); do
    if ((round % 2)); then
      a=$(seconds 3 4) b=$(seconds 5 6)
    else
      b=$(seconds 5 6) a=$(seconds 3 4)
    fi
    echo "$a $b"
  done | awk -v recipe="$recipe" '
    function median(v, n,   i, j, t) {
      for (i = 2; i <= n; ++i)
        for (j = i; j > 1 && v[j - 1] > v[j]; --j) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
      return v[int((n + 1) / 2)]
    }
    { step[NR] = $2; ratio[NR] = $2 / $1 }
    END { printf "| %s | %.2f | %.3f |\n", recipe, median(step, NR), median(ratio, NR) }'
  exec 5>&- 6<&-
  wait $! 2>/dev/null || true
done
exec 3>&- 4<&-
