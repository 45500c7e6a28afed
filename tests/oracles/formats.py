#!/usr/bin/env python3
"""Holds `lathe number --json` against ml_dtypes and gfloat (both on PyPI).

    python3 tests/oracles/formats.py [path/to/lathe]

Prints a table of where the three differ and why. Exits with 1 when a difference is none of those
that it knows, 0 otherwise; says so and exits with 0 when a package is missing.
"""

import json
import math
import random
import struct
import subprocess
import sys

try:
    import gfloat
    import ml_dtypes
    import numpy as np
    from gfloat import formats as gf
except ImportError as missing:
    print(f"skipped: formats are compared with ml_dtypes and gfloat, and {missing.name} is not "
          "installed (pip install ml_dtypes gfloat)")
    sys.exit(0)

LATHE = sys.argv[1] if len(sys.argv) > 1 else "build/release/lathe"

# Our name: the type in ml_dtypes, the format in gfloat.
FORMATS = {
    "e4m3": (ml_dtypes.float8_e4m3fn, gf.format_info_ocp_e4m3),
    "e5m2": (ml_dtypes.float8_e5m2, gf.format_info_ocp_e5m2),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, None),
    "e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, None),
    "e2m3": (ml_dtypes.float6_e2m3fn, gf.format_info_ocp_e2m3),
    "e3m2": (ml_dtypes.float6_e3m2fn, gf.format_info_ocp_e3m2),
    "e2m1": (ml_dtypes.float4_e2m1fn, gf.format_info_ocp_e2m1),
    "e8m0": (ml_dtypes.float8_e8m0fnu, gf.format_info_ocp_e8m0),
    "mxint8": (None, gf.format_info_ocp_int8),
    "bf16": (ml_dtypes.bfloat16, gf.format_info_bfloat16),
    "fp16": (np.float16, gf.format_info_binary16),
}


def inputs(values):
    """Decoded values, the midpoints between neighbours with one ulp to each side, and draws."""
    finite = sorted({v for v in values if math.isfinite(v)})
    if len(finite) > 1000:
        finite = finite[:: len(finite) // 1000]
    out = list(finite)
    for low, high in zip(finite, finite[1:]):
        middle = (low + high) / 2
        out += [middle, math.nextafter(middle, -math.inf), math.nextafter(middle, math.inf)]
        single = np.float32(middle)
        if np.isfinite(single):
            out += [float(np.nextafter(single, np.float32(-np.inf))),
                    float(np.nextafter(single, np.float32(np.inf)))]
    top = finite[-1]
    rng = random.Random(1)
    out += [rng.gauss(0, 1) * top * 2.0 ** rng.uniform(-20, 1) for _ in range(2000)]
    out += [top * f for f in (1.01, 1.03, 1.0625, 1.07, 1.25, 2, 1e3)]
    out += [-x for x in out]
    return out + [0.0, -0.0, math.inf, -math.inf, math.nan, 17.001, 17 + 2.0 ** -30]


def ours(name, xs, overflow):
    text = "".join(f"{x!r}\n" for x in xs)
    run = subprocess.run(
        [LATHE, "number", "--format", name, "--tie", "even", "--overflow", overflow, "--json"],
        input=text, capture_output=True, text=True, check=True)
    return [int(json.loads(line)["code"], 16) for line in run.stdout.splitlines()]


def table(name):
    run = subprocess.run([LATHE, "number", "--table", name, "--json"], capture_output=True,
                         text=True, check=True)
    return [float(c["value"]) for c in json.loads(run.stdout)["codes"]]


def with_ml_dtypes(dtype, xs):
    with np.errstate(all="ignore"):
        codes = np.array(xs, dtype=np.float64).astype(dtype)
    return [int(c) for c in codes.view(np.uint16 if codes.dtype.itemsize == 2 else np.uint8)]


def with_gfloat(info, xs, saturate):
    out = []
    for x in xs:
        try:
            rounded = gfloat.round_float(info, x, gfloat.RoundMode.TiesToEven, saturate)
            out.append(gfloat.encode_float(info, rounded))
        except (ValueError, AssertionError, OverflowError) as e:
            out.append(type(e).__name__)
    return out


def through_float(x):
    """The FP32 that ml_dtypes turns a double into first."""
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def is_power_midpoint(x):
    return math.frexp(x)[0] == 0.75


def why(name, peer, x, values, our, their, our_of_float):
    """The reason of a difference, or None when it is not a known one."""
    nan = our < len(values) and math.isnan(values[our])
    theirs_nan = isinstance(their, int) and their < len(values) and math.isnan(values[their])
    if isinstance(their, str):
        return f"{peer} raises: the format cannot say it"
    if nan and theirs_nan:
        return "another of the NaN codes"
    if math.isnan(x):
        return "NaN into a format without: ours the largest value, as PTX .satfinite has it"
    if name == "e8m0" and x <= 0:
        return "zero and negative values, which E8M0 lacks"
    if name == "e8m0" and peer == "ml_dtypes" and is_power_midpoint(through_float(x)):
        return "ml_dtypes rounds ties of E8M0 up (and a double to FP32 first)"
    if name == "e8m0" and peer == "ml_dtypes" and x < 2.0 ** -126:
        return "ml_dtypes rounds FP32 subnormals just below a midpoint of E8M0 up"
    if peer == "ml_dtypes" and through_float(x) != x and our_of_float == their:
        return "ml_dtypes rounds a double to FP32 first: two roundings"
    return None


def compare(name, peer, xs, values, our, their, rows):
    our_of_float = ours(name, [through_float(x) for x in xs], "nonsaturate")
    reasons = {}
    for x, a, b, c in zip(xs, our, their, our_of_float):
        if a != b:
            reasons.setdefault(why(name, peer, x, values, a, b, c), []).append((x, a, b))
    rows.append((name, peer, len(xs), sum(map(len, reasons.values())), reasons))


def shown(code):
    return code if isinstance(code, str) else f"{code:#x}"


def main():
    rows, unknown = [], 0
    for name, (dtype, info) in FORMATS.items():
        values = table(name)
        xs = inputs(values)
        open_codes, saturated = ours(name, xs, "nonsaturate"), ours(name, xs, "saturate")
        if dtype is not None:
            compare(name, "ml_dtypes", xs, values, open_codes, with_ml_dtypes(dtype, xs), rows)
        if info is not None:
            compare(name, "gfloat", xs, values, open_codes, with_gfloat(info, xs, False), rows)
            compare(name, "gfloat sat", xs, values, saturated, with_gfloat(info, xs, True), rows)
    print(f"{'format':10}{'peer':12}{'values':>8}{'differ':>8}  why, with an example")
    for name, peer, total, differ, reasons in rows:
        print(f"{name:10}{peer:12}{total:8}{differ:8}")
        for reason, cases in reasons.items():
            x, a, b = cases[0]
            unknown += len(cases) if reason is None else 0
            print(f"{'':38}  {len(cases)}: {reason or 'UNEXPLAINED'}; "
                  f"{x!r}: ours {shown(a)}, theirs {shown(b)}")
    print(f"{unknown} differences without a reason")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
