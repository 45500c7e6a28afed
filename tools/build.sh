#!/usr/bin/env bash
# Configures a preset and builds it, through ccache where that is installed.
#   tools/build.sh release [TARGET…]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1
shift
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
# Another clone of the same sources finds what this one compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset "$preset" "${launcher[@]}"
targets=()
(($#)) && targets=(--target "$@")
cmake --build "build/$preset" --parallel "$(nproc)" "${targets[@]}"
