#!/usr/bin/env bash
# Fails when a source is not as clang-format-19 would write it; with --fix, rewrites it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

flags=(--dry-run -Werror)
[[ ${1:-} == --fix ]] && flags=(-i)
find lathe tests bench \( -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 -n 16 -P "$(nproc)" clang-format-19 "${flags[@]}"
