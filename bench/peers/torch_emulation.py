"""Linear layers that multiply in MXFP8 or NVFP4, emulated in three manners.

lean: BF16 tensors, arithmetic on exponent bits, casts to float8, all of it made to be compiled.

public: as published emulators do it. Every tensor is FP32, and one operation follows the other,
each into a new tensor: blocks are divided by their scales; a logarithm finds the binade of every
element, and so the step that it is divided by, rounded and multiplied with.

microxcaling: the linear layer of that library itself.
"""

import functools
import importlib
import os
import sys
import types

import torch
import torch.nn as nn
import torch.nn.functional as F

# Lean MXFP8: E4M3 in blocks of 32 along the sum, scales rounded up to powers of two.


def mxfp8_parts(x, dim):
    """Blocks of 32 of a matrix along dim, the codes of their E8M0 scales, and elements in E4M3."""
    blocks = x.unflatten(dim, (-1, 32))
    amax = blocks.abs().amax(dim + 1, keepdim=True).float()
    bits = (amax * (1 / 448)).view(torch.int32)
    # The exponent of the smallest power of two that is not below; code 0 would be subnormal.
    code = ((bits + 0x7FFFFF) >> 23).clamp(1, 254)
    inverse = ((254 - code) << 23).view(torch.float32)
    return code, (blocks * inverse).clamp_(-448, 448).to(torch.float8_e4m3fn)


def mxfp8(x, dim):
    """The values that a matrix has in MXFP8, in BF16, which holds them exactly."""
    code, elements = mxfp8_parts(x, dim)
    scale = (code << 23).view(torch.float32).to(torch.bfloat16)
    return (elements.to(torch.bfloat16) * scale).flatten(dim, dim + 1)


class Mxfp8Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, bias):
        ctx.save_for_backward(x, w)
        return F.linear(mxfp8(x, 1), mxfp8(w, 1), bias.to(torch.bfloat16))

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dx = torch.matmul(mxfp8(dy, 1), mxfp8(w, 0))
        dw = torch.matmul(mxfp8(dy, 0).t(), mxfp8(x, 0))
        return dx, dw.float(), dy.sum(0, dtype=torch.float32)


# Lean NVFP4: E2M1 in blocks of 16 along the sum, or of 16 x 16, E4M3 scales, one in FP32 a tensor.

FLOAT_MAX = torch.finfo(torch.float32).max
SIGNS = [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1]
HADAMARD = torch.tensor(
    [[SIGNS[i] * (-1) ** bin(i & j).count("1") / 4 for i in range(16)] for j in range(16)],
    dtype=torch.bfloat16,
)


def turned(x):
    """The random Hadamard transform of every 16 rows. Both factors' cancels out in a product."""
    return torch.matmul(HADAMARD.to(x.dtype), x.unflatten(0, (-1, 16))).flatten(0, 1)


def round_to_e2m1(x, stochastic=False):
    """To 0, 0.5, 1, 1.5, 2, 3, 4 or 6 and their negatives: to nearest even, or by chance."""
    size = x.abs().clamp_(max=6)
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    steps = size / step
    steps = (steps + torch.rand_like(steps)).floor_() if stochastic else steps.round_()
    return torch.copysign(steps * step, x)


def nvfp4_blocks(x, dim, square):
    """Blocks of a matrix, and the dimensions that each of them fills."""
    if square:
        return x.unflatten(0, (-1, 16)).unflatten(2, (-1, 16)), (1, 3)
    return x.unflatten(dim, (-1, 16)), dim + 1


def nvfp4_encode(amax):
    """What a tensor is multiplied by before its blocks are scaled."""
    # A number over a tensor would be the tensor's reciprocal times it: two roundings.
    encode = (torch.full_like(amax, 2688) / amax).clamp(max=FLOAT_MAX)
    return torch.where(amax > 0, encode, 1.0)


def nvfp4_parts(x, dim, square=False, stochastic=False, amax=None):
    """Blocks of a matrix: their E4M3 scales, elements of E2M1 in FP32; and the tensor's scale."""
    blocks, along = nvfp4_blocks(x, dim, square)
    block_amax = blocks.abs().amax(along, keepdim=True).float()
    if amax is None:
        amax = block_amax.amax()
    encode = nvfp4_encode(amax)
    scale = (block_amax * (encode * (1 / 6))).clamp_(max=448).to(torch.float8_e4m3fn)
    inverse = (scale.float() * encode.reciprocal()).reciprocal().clamp(max=FLOAT_MAX)
    return scale, round_to_e2m1(blocks * inverse, stochastic), amax / 2688


def nvfp4(x, dim, square=False, stochastic=False):
    """The values that a matrix has in NVFP4, rounded to BF16."""
    scale, elements, tensor = nvfp4_parts(x, dim, square, stochastic)
    return (elements * (scale.float() * tensor)).to(torch.bfloat16).view(x.shape)


class Nvfp4Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, bias):
        w = nvfp4(w, 1, square=True)  # the same for both of its products
        ctx.save_for_backward(x, w)
        return F.linear(nvfp4(x, 1), w, bias.to(torch.bfloat16))

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dx = torch.matmul(nvfp4(dy, 1, stochastic=True), w)
        dw = torch.matmul(nvfp4(turned(dy), 0, stochastic=True).t(), nvfp4(turned(x), 0))
        return dx, dw.float(), dy.sum(0, dtype=torch.float32)


# Public: any float by a private exponent, found by a logarithm.

# Digits after the leading one, the exponent under which they get fewer, the largest value.
E4M3 = (3, -6, 448)
E2M1 = (1, 0, 6)
BF16 = (7, -126, torch.finfo(torch.bfloat16).max)


def rounded(x, element, stochastic=False):
    """To the nearest value of an element, ties to even, or to one of both neighbours by chance."""
    digits, lowest, largest = element
    x = torch.clamp(x, -largest, largest)
    exponent = torch.floor(torch.log2(torch.clamp(torch.abs(x), min=2.0**lowest)))
    step = torch.exp2(exponent - digits)
    steps = x / step
    steps = torch.floor(steps + torch.rand_like(steps)) if stochastic else torch.round(steps)
    return steps * step


def public_mxfp8_parts(x, dim):
    """Blocks of 32 of a matrix along dim: their scales, and elements of E4M3."""
    blocks = x.unflatten(dim, (-1, 32))
    least = torch.amax(torch.abs(blocks), dim + 1, keepdim=True) * (1 / 448)
    scale = torch.exp2(torch.clamp(torch.ceil(torch.log2(least)), -126, 127))
    # The logarithm of a number just above a power of two may be rounded to that power's.
    scale = torch.where(least > scale, 2 * scale, scale)
    return scale, rounded(blocks / scale, E4M3)


def public_mxfp8(x, dim):
    """The values that a matrix has in MXFP8."""
    scale, elements = public_mxfp8_parts(x, dim)
    return (elements * scale).flatten(dim, dim + 1)


class PublicMxfp8Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, bias):
        x = rounded(x, BF16)
        ctx.save_for_backward(x, w)
        return rounded(F.linear(public_mxfp8(x, 1), public_mxfp8(w, 1), bias), BF16)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy = rounded(dy, BF16)
        dx = torch.matmul(public_mxfp8(dy, 1), public_mxfp8(w, 0))
        dw = torch.matmul(public_mxfp8(dy, 0).t(), public_mxfp8(x, 0))
        return rounded(dx, BF16), dw, dy.sum(0)


def public_nvfp4_parts(x, dim, square=False, stochastic=False, amax=None):
    """Blocks of a matrix: their scales of E4M3, elements of E2M1; and the tensor's scale."""
    blocks, along = nvfp4_blocks(x, dim, square)
    block_amax = torch.amax(torch.abs(blocks), along, keepdim=True)
    if amax is None:
        amax = block_amax.amax()
    encode = nvfp4_encode(amax)
    scale = rounded(block_amax * (encode * (1 / 6)), E4M3)
    inverse = torch.clamp((scale * encode.reciprocal()).reciprocal(), max=FLOAT_MAX)
    return scale, rounded(blocks * inverse, E2M1, stochastic), amax / 2688


def public_nvfp4(x, dim, square=False, stochastic=False):
    """The values that a matrix has in NVFP4."""
    scale, elements, tensor = public_nvfp4_parts(x, dim, square, stochastic)
    return (elements * (scale * tensor)).view(x.shape)


class PublicNvfp4Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, bias):
        x, w = rounded(x, BF16), public_nvfp4(w, 1, square=True)
        ctx.save_for_backward(x, w)
        return rounded(F.linear(public_nvfp4(x, 1), w, bias), BF16)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy = rounded(dy, BF16)
        dx = torch.matmul(public_nvfp4(dy, 1, stochastic=True), w)
        turned_dy = public_nvfp4(turned(dy), 0, stochastic=True)
        dw = torch.matmul(turned_dy.t(), public_nvfp4(turned(x), 0))
        return rounded(dx, BF16), dw, dy.sum(0)


# Layers.

EMULATIONS = ("lean", "public", "microxcaling")
FUNCTIONS = {
    ("mxfp8", "lean"): (Mxfp8Linear, torch.bfloat16),
    ("nvfp4", "lean"): (Nvfp4Linear, torch.bfloat16),
    ("mxfp8", "public"): (PublicMxfp8Linear, torch.float32),
    ("nvfp4", "public"): (PublicNvfp4Linear, torch.float32),
}


class Linear(nn.Linear):
    """A linear layer whose products are those of an autograd function that reads a dtype."""

    def __init__(self, inputs, outputs, function, dtype):
        super().__init__(inputs, outputs)
        self.function = function
        self.reads = dtype

    def forward(self, x):
        rows = x.flatten(0, -2).to(self.reads)
        return self.function.apply(rows, self.weight, self.bias).unflatten(0, x.shape[:-1])


def microxcaling_linear(folder):
    """microxcaling's linear layer in MXFP8; its package mx lies in the folder."""
    package = os.path.join(folder, "mx")
    if not os.path.isfile(os.path.join(package, "linear.py")):
        sys.exit(f"{folder} has no folder mx with linear.py in it; --microxcaling takes a clone of "
                 "https://github.com/microsoft/microxcaling")
    # Its __init__ loads convolutions too, which need a package that PyTorch does not bring.
    sys.modules["mx"] = types.ModuleType("mx")
    sys.modules["mx"].__path__ = [package]
    # It asks this of a GPU, which some builds of PyTorch answer by raising. Without one it is no.
    torch.cuda.is_bf16_supported = lambda *_, **__: False
    specs = importlib.import_module("mx.specs").finalize_mx_specs({
        "w_elem_format": "fp8_e4m3",
        "a_elem_format": "fp8_e4m3",
        "block_size": 32,
        "scale_bits": 8,
        "bfloat": 16,
        "custom_cuda": False,
        "quantize_backprop": True,
        "round": "even",
    })
    return functools.partial(importlib.import_module("mx.linear").Linear, mx_specs=specs)


def linears_of(dtype, layers, emulation, folder=None):
    """For each block, what makes its linear layers from their inputs and outputs."""
    if dtype not in ("mxfp8", "nvfp4"):
        return [nn.Linear] * layers
    if emulation == "microxcaling":
        return [microxcaling_linear(folder)] * layers
    function, reads = FUNCTIONS[dtype, emulation]
    linear = functools.partial(Linear, function=function, dtype=reads)
    plain = max(1, round(0.15 * layers)) if dtype == "nvfp4" else 0
    return [linear] * (layers - plain) + [nn.Linear] * plain
