#!/usr/bin/env bash
# Fails when an object of one instruction set defines a symbol that the linker may merge with
# another file's copy: weak (W, V) or unique (u). Such a copy would be compiled for that instruction
# set and might be chosen for every caller, on machines that lack it too.
#   tools/isa_symbols.sh OBJECT…     objects outside the folders avx2, avx512*, amx are passed over
set -euo pipefail

found=0 bad=0
for object in "$@"; do
  [[ $object =~ /(avx2|avx512[a-z0-9]*|amx)/ ]] || continue
  found=$((found + 1))
  symbols=$(nm --defined-only --demangle "$object")
  while read -r _ kind name; do
    if [[ $kind == [WVu] ]]; then
      echo "$object: weak symbol $name"
      bad=1
    fi
  done <<<"$symbols"
done
if ((found == 0)); then
  echo "no object of one instruction set among the $# given"
  exit 1
fi
((bad == 0)) && echo "$found objects, no weak symbol"
exit $bad
