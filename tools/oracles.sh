#!/usr/bin/env bash
# Compares our number formats with those of ml_dtypes and gfloat, in a Python of their own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=build/oracles
if [[ ! -x $venv/bin/python ]]; then
  rm -rf "$venv.part"
  if ! python3 -m venv "$venv.part" ||
    ! "$venv.part/bin/python" -m pip install --quiet numpy ml_dtypes gfloat; then
    echo "skipped: python3 with ml_dtypes and gfloat cannot be had here"
    exit 0
  fi
  mv "$venv.part" "$venv"
fi
exec "$venv/bin/python" tests/oracles/formats.py build/release/lathe
