#!/usr/bin/env bash
# Installs the Debian packages of the groups named, those that are missing only.
#   tools/packages.sh build check
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

wanted=()
for group in "$@"; do
  while read -r of name; do
    [[ $of == "$group" ]] && wanted+=("$name")
  done < <(grep -v '^#' "$here/packages.txt")
done

system=unknown
[[ -r /etc/os-release ]] && system=$(. /etc/os-release && echo "${ID:-unknown} ${VERSION_ID:-}")
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "This is $system and not Debian 12: nothing is installed, the tools that are here are used."
  absent=()
  for tool in g++ cmake ninja pkg-config; do
    command -v "$tool" >/dev/null || absent+=("$tool")
  done
  ((${#absent[@]} == 0)) && exit 0
  echo "error: not found: ${absent[*]}" >&2
  echo "  hint: install what Debian calls ${wanted[*]}" >&2
  exit 2
fi
[[ $system == "debian 12" ]] ||
  echo "This is $system and not Debian 12: package names or versions may differ."

missing=()
for name in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$name")
done
((${#missing[@]} == 0)) && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "error: packages are missing, and this user is not root and has no sudo" >&2
    echo "  hint: as root, apt-get install ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
  --no-install-recommends "${missing[@]}" >/dev/null
