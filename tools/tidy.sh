#!/usr/bin/env bash
# clang-tidy-19 over the sources that differ from the last commit but one, or with --all over every
# one. With --seconds N it starts no further file after that time and says how many are left.
#   tools/tidy.sh [--all] [--seconds N] [FILE.cpp…]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=0 seconds=0 files=()
while (($#)); do
  case $1 in
    --all) all=1 ;;
    --seconds) seconds=$2 && shift ;;
    *) files+=("$1") ;;
  esac
  shift
done

database=build/release
if [[ ! -f $database/compile_commands.json ]]; then
  echo "error: $database holds no compile_commands.json" >&2
  echo "  hint: cmake --preset release" >&2
  exit 2
fi

changed() {
  if ((all)) || ! git rev-parse -q --verify HEAD~1 >/dev/null 2>&1; then
    find lathe tests bench -name '*.cpp'
  else
    git diff --name-only --diff-filter=d HEAD~1 -- 'lathe/*.cpp' 'tests/*.cpp' 'bench/*.cpp'
    git ls-files --others --exclude-standard -- 'lathe/*.cpp' 'tests/*.cpp' 'bench/*.cpp'
  fi
}
((${#files[@]})) || mapfile -t files < <(changed | sort -u)
# A benchmark that lacks its package is built by nobody, and has no flags to be read with.
known=()
for file in "${files[@]}"; do
  if grep -qF "$PWD/$file\"" "$database/compile_commands.json"; then known+=("$file"); fi
done

if ((${#known[@]} == 0)); then
  echo "tidy: no source differs"
  exit 0
fi

one() {
  if (($2 > 0 && $(date +%s) >= $2)); then
    echo "left $1"
    return
  fi
  # The database is written for g++, some of whose warnings clang does not know.
  if clang-tidy-19 -p "$3" --quiet --extra-arg=-Wno-error --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-ignored-optimization-argument "$1" 2>/dev/null; then
    echo "clean $1"
  else
    echo "unclean $1"
  fi
}
export -f one
until=$((seconds > 0 ? $(date +%s) + seconds : 0))
out=$(printf '%s\0' "${known[@]}" |
  xargs -0 -r -n 1 -P "$(nproc)" bash -c 'one "$3" "$1" "$2"' _ "$until" "$database")
grep -v '^clean \|^left ' <<<"$out" || true
count() { grep -c "^$1 " <<<"$out" || true; }
echo "tidy: $(count clean) clean, $(count unclean) not, $(count left) not looked at"
[[ $(count unclean) == 0 ]]
