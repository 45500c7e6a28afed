"""Holds torch_emulation.py's formats and layers against known values: torch_gpt2.py --check."""

import sys

import torch
import torch.nn.functional as F

import torch_emulation as emulated
from torch_emulation import BF16, E2M1, E4M3, rounded


def expect(what, got, wanted):
    got, wanted = torch.as_tensor(got), torch.as_tensor(wanted)
    if not torch.equal(got.to(wanted.dtype), wanted):
        wrong = got != wanted if got.shape == wanted.shape else ...
        got, wanted = (t[wrong].flatten()[:64].tolist() for t in (got, wanted))
        sys.exit(f"{what}: {got} is not {wanted}")
    print(f"ok  {what}")


def check_mxfp8(manner, parts, values):
    """Scales are rounded up from fl(amax / 448), whichever way blocks lie."""
    for amax, code, value in [(448, 127, 448), (448 + 2**-15, 128, 448), (957, 129, 960),
                              (1.75, 119, 1.75), (1.76, 120, 1.75), (0, 1, 0),
                              (2**90 * (448 + 2**-15), 218, 2**90 * 448)]:
        row = torch.zeros(1, 32)
        row[0, 7] = -amax
        for x, dim in [(row, 1), (row.t(), 0)]:
            what = f"of {amax:.8g}, along dimension {dim}"
            scale = parts(x, dim)[0].flatten()
            got = scale.log2() + 127 if scale.is_floating_point() else scale
            expect(f"{manner} MXFP8's scale {what}", got, [float(code)])
            expect(f"{manner} MXFP8's value {what}", values(x, dim).flatten()[7], -float(value))


def check_e2m1(manner, e2m1):
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6.1, 100])
    nearest = torch.tensor([0, 1, 1, 2, 2, 4, 4, 6, 6.0])
    expect(f"{manner} E2M1's ties", e2m1(ties), nearest)
    expect(f"{manner} E2M1's ties, negative", e2m1(-ties), -nearest)
    torch.manual_seed(1)
    means = [e2m1(torch.full((40000,), x), True).mean().item() for x in (0.1, 2.3, -4.5)]
    expect(f"{manner} stochastic rounding's means", [round(m, 1) for m in means], [0.1, 2.3, -4.5])


def check_nvfp4(manner, parts, values):
    e2m1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    saw = torch.tensor([(n if n % 2 else -n) / 10 for n in range(1, 17)])
    for amax, byte, digits in [(1.6, 0x7E, "192b4c5d5e6e6f7f"), (10, 0x69, "192b4c5d5e6e6f7f"),
                               (100, 0x4E, "1a2b4c5d5e6e6f7f"), (2688, 0x29, "192b4c4d5e6e6e7f")]:
        codes = [int(d, 16) for d in digits]
        elements = torch.tensor([e2m1[c % 8] * (-1 if c > 7 else 1) for c in codes])
        wanted = torch.tensor([byte], dtype=torch.uint8).view(torch.float8_e4m3fn).float()
        for x, dim in [(saw.view(1, 16), 1), (saw.view(16, 1), 0)]:
            scale, got, _ = parts(x, dim, amax=torch.tensor(float(amax)))
            what = f"in a tensor of {amax}, along dimension {dim}"
            expect(f"{manner} NVFP4's scale {what}", scale.float().flatten(), wanted)
            expect(f"{manner} NVFP4's elements {what}", got.flatten(), elements)
    square = torch.zeros(32, 32)
    square[3, 20] = 6
    square[20, 20] = 3
    scale = parts(square, 1, square=True)[0].float().flatten()
    expect(f"{manner} NVFP4's squares", scale, [0.0, 448, 0, 224])
    expect(f"{manner} NVFP4's values in squares", values(square, 1, square=True), square)
    expect(f"{manner} NVFP4 of zeros", values(torch.zeros(16, 16), 0), torch.zeros(16, 16))


def check_manners(x):
    """Both manners of ours have the same values of a matrix."""
    e4m3 = x.clamp(-448, 448).to(torch.float8_e4m3fn)
    expect("public E4M3 as cast", rounded(x, E4M3), e4m3.float())
    bf16 = x.to(torch.bfloat16).float()
    expect("public BF16 as cast", rounded(x, BF16), bf16)
    for what, y in [("FP32", x), ("BF16", bf16)]:
        for dim in (0, 1):
            which = f"of {what} along dimension {dim}, public as lean"
            expect(f"MXFP8 {which}", emulated.public_mxfp8(y, dim), emulated.mxfp8(y, dim).float())
            lean, public = emulated.nvfp4_parts(y, dim), emulated.public_nvfp4_parts(y, dim)
            expect(f"NVFP4's scales {which}", public[0], lean[0].float())
            expect(f"NVFP4's elements {which}", public[1], lean[1])
            lean, public = emulated.nvfp4(y, dim), emulated.public_nvfp4(y, dim)
            expect(f"NVFP4 {which}", public.to(torch.bfloat16), lean)
        lean, public = (f(y, 1, square=True) for f in (emulated.nvfp4, emulated.public_nvfp4))
        expect(f"NVFP4 of {what} in squares, public as lean", public.to(torch.bfloat16), lean)
    chances = []
    for parts in (emulated.nvfp4_parts, emulated.public_nvfp4_parts):
        torch.manual_seed(2)
        chances.append(parts(x.abs(), 1, stochastic=True)[1])
    expect("NVFP4 by the same chance, public as lean", chances[1], chances[0])


def check_layers(microxcaling):
    """Near enough to FP32's product and gradients, over all three products."""
    x, w, bias, dy = (torch.randn(s) for s in ((64, 96), (32, 96), (32,), (64, 32)))
    x, dy = x.to(torch.bfloat16).float(), dy.to(torch.bfloat16).float()
    wanted = F.linear(x, w, bias), dy @ w, dy.t() @ x, dy.sum(0)
    layers = [("mxfp8", "lean", 0.05), ("nvfp4", "lean", 0.25),
              ("mxfp8", "public", 0.05), ("nvfp4", "public", 0.25)]
    if microxcaling:
        layers.append(("mxfp8", "microxcaling", 0.05))
    for dtype, emulation, most in layers:
        layer = emulated.linears_of(dtype, 2, emulation, microxcaling)[0](96, 32)
        layer.weight.data, layer.bias.data = w.clone(), bias.clone()
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        y.backward(dy.to(y.dtype))
        gotten = y, leaf.grad, layer.weight.grad, layer.bias.grad
        for what, got, exact in zip(("y", "dx", "dw", "db"), gotten, wanted):
            error = ((got.float() - exact).norm() / exact.norm()).item()
            expect(f"{emulation} {dtype}'s {what}, {error:.4f} off", error < most, True)


def check_compiled(x):
    for what, f in [("MXFP8 along columns", lambda t: emulated.mxfp8(t, 1)),
                    ("MXFP8 along rows", lambda t: emulated.mxfp8(t, 0)),
                    ("NVFP4 in squares", lambda t: emulated.nvfp4(t, 1, square=True)),
                    ("NVFP4 along rows", lambda t: emulated.nvfp4(t, 0))]:
        expect(f"{what}, compiled", torch.compile(f)(x), f(x))


def check(compiled, microxcaling=None):
    """All of it; the lean manner compiled too, and microxcaling where its folder is given."""
    check_mxfp8("lean", emulated.mxfp8_parts, emulated.mxfp8)
    check_mxfp8("public", emulated.public_mxfp8_parts, emulated.public_mxfp8)
    check_e2m1("lean", emulated.round_to_e2m1)
    check_e2m1("public", lambda x, chance=False: rounded(x, E2M1, chance))
    check_nvfp4("lean", emulated.nvfp4_parts, emulated.nvfp4)
    check_nvfp4("public", emulated.public_nvfp4_parts, emulated.public_nvfp4)

    eye = torch.eye(16).to(torch.bfloat16)
    expect("transforms cancel out", emulated.turned(eye).t() @ emulated.turned(eye), eye)
    x = torch.randn(192, 320) * torch.exp2(torch.randint(-20, 20, (192, 320)).float())
    check_manners(x)
    check_layers(microxcaling)
    if compiled:
        check_compiled(x)
