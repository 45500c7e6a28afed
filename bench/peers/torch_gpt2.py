"""A training step of GPT-2 124M in PyTorch, as fast as PyTorch goes on this CPU without leaving its
own means: BF16 autocast (or FP32), scaled_dot_product_attention, fused AdamW, torch.compile.

With --dtype mxfp8 or nvfp4 linear layers are emulated, as one does it in PyTorch on a machine
without such units: operands are quantised and dequantised by tensor operations, anew for each
product that reads them, and multiplied in BF16. Attention and the head stay in BF16, and with nvfp4
the last 15 % of the blocks.

Speaks a line protocol so that compare.sh can alternate it with another program: it prints "ready",
and then for each line "N" on stdin runs N steps and prints their seconds, one a line, then "end".

    python torch_gpt2.py --dtype bf16 --threads 2 [--no-compile] [--batch 8] [--steps 3] [--smoke]
    python torch_gpt2.py --check [--no-compile]      the emulated formats on known values
"""

import argparse
import collections
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

Shape = collections.namedtuple("Shape", "vocab context width layers heads")
GPT2_124M = Shape(50304, 1024, 768, 12, 12)
SMOKE = Shape(512, 64, 64, 2, 2)


# MXFP8: E4M3 in blocks of 32 along the sum, scales rounded up to powers of two.


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


# NVFP4: E2M1 in blocks of 16 along the sum, or of 16 x 16, E4M3 scales, an FP32 scale a tensor.

FLOAT_MAX = torch.finfo(torch.float32).max
SIGNS = [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1]
HADAMARD = torch.tensor(
    [[SIGNS[i] * (-1) ** bin(i & j).count("1") / 4 for i in range(16)] for j in range(16)],
    dtype=torch.bfloat16,
)


def turned(x):
    """The random Hadamard transform of every 16 rows. Both factors' cancels out in a product."""
    return torch.matmul(HADAMARD, x.unflatten(0, (-1, 16))).flatten(0, 1)


def round_to_e2m1(x, stochastic=False):
    """To 0, 0.5, 1, 1.5, 2, 3, 4 or 6 and their negatives: to nearest even, or by chance."""
    size = x.abs().clamp_(max=6)
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    steps = size / step
    steps = (steps + torch.rand_like(steps)).floor_() if stochastic else steps.round_()
    return torch.copysign(steps * step, x)


def nvfp4_parts(x, dim, square=False, stochastic=False, amax=None):
    """Blocks of a matrix: their E4M3 scales, elements of E2M1 in FP32; and the tensor's scale."""
    if square:
        blocks, along = x.unflatten(0, (-1, 16)).unflatten(2, (-1, 16)), (1, 3)
    else:
        blocks, along = x.unflatten(dim, (-1, 16)), dim + 1
    block_amax = blocks.abs().amax(along, keepdim=True).float()
    if amax is None:
        amax = block_amax.amax()
    # A number over a tensor would be the tensor's reciprocal times it: two roundings.
    encode = (torch.full_like(amax, 2688) / amax).clamp(max=FLOAT_MAX)
    encode = torch.where(amax > 0, encode, 1.0)
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


class Linear(nn.Linear):
    """A linear layer whose products are those of an autograd function, or PyTorch's own."""

    def __init__(self, inputs, outputs, function):
        super().__init__(inputs, outputs)
        self.function = function

    def forward(self, x):
        if self.function is None:
            return super().forward(x)
        rows = x.flatten(0, -2).to(torch.bfloat16)
        return self.function.apply(rows, self.weight, self.bias).unflatten(0, x.shape[:-1])


def functions_of(dtype, layers):
    """The function of each block's linear layers."""
    if dtype == "mxfp8":
        return [Mxfp8Linear] * layers
    if dtype == "nvfp4":
        plain = max(1, round(0.15 * layers))
        return [Nvfp4Linear] * (layers - plain) + [None] * plain
    return [None] * layers


class Block(nn.Module):
    def __init__(self, shape, function):
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = Linear(width, 3 * width, function)
        self.out = Linear(width, width, function)
        self.norm2 = nn.LayerNorm(width)
        self.up = Linear(width, 4 * width, function)
        self.down = Linear(4 * width, width, function)

    def forward(self, x):
        B, T, C = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:  # before PyTorch 2
            scores = q @ k.transpose(-2, -1) / math.sqrt(C // self.heads)
            mask = torch.ones(T, T, dtype=torch.bool).tril()
            y = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, shape, dtype):
        super().__init__()
        self.token = nn.Embedding(shape.vocab, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape, f) for f in functions_of(dtype, shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)  # the head is the embedding
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.view(-1))


def optimizer_of(model):
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    options = dict(lr=3e-4, betas=(0.9, 0.95), eps=1e-8)
    try:
        return torch.optim.AdamW(groups, fused=True, **options)
    except (RuntimeError, TypeError):
        print("fused AdamW is not to be had; the plain one is used", file=sys.stderr)
        return torch.optim.AdamW(groups, **options)


def check(compiled):
    """Holds the emulated formats against known values; and compiled against not."""

    def expect(what, got, wanted):
        got, wanted = torch.as_tensor(got), torch.as_tensor(wanted)
        if not torch.equal(got.to(wanted.dtype), wanted):
            sys.exit(f"{what}: {got.tolist()} is not {wanted.tolist()}")
        print(f"ok  {what}")

    # Scales are rounded up from fl(amax / 448), whichever way blocks lie.
    for amax, code, value in [(448, 127, 448), (448 + 2**-15, 128, 448), (957, 129, 960),
                              (1.75, 119, 1.75), (1.76, 120, 1.75), (0, 1, 0)]:
        row = torch.zeros(1, 32)
        row[0, 7] = -amax
        for x, dim in [(row, 1), (row.t(), 0)]:
            what = f"of {amax:.8g}, along dimension {dim}"
            expect(f"MXFP8's scale {what}", mxfp8_parts(x, dim)[0].flatten(), [code])
            expect(f"MXFP8's value {what}", mxfp8(x, dim).flatten()[7], -float(value))

    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6.1, 100])
    nearest = torch.tensor([0, 1, 1, 2, 2, 4, 4, 6, 6.0])
    expect("E2M1's ties", round_to_e2m1(ties), nearest)
    expect("E2M1's ties, negative", round_to_e2m1(-ties), -nearest)

    values = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    saw = torch.tensor([(n if n % 2 else -n) / 10 for n in range(1, 17)])
    for amax, byte, digits in [(1.6, 0x7E, "192b4c5d5e6e6f7f"), (10, 0x69, "192b4c5d5e6e6f7f"),
                               (100, 0x4E, "1a2b4c5d5e6e6f7f"), (2688, 0x29, "192b4c4d5e6e6e7f")]:
        codes = [int(d, 16) for d in digits]
        elements = torch.tensor([values[c % 8] * (-1 if c > 7 else 1) for c in codes])
        for x, dim in [(saw.view(1, 16), 1), (saw.view(16, 1), 0)]:
            scale, got, _ = nvfp4_parts(x, dim, amax=torch.tensor(float(amax)))
            what = f"in a tensor of {amax}, along dimension {dim}"
            expect(f"NVFP4's scale {what}", scale.view(torch.uint8).flatten(), [byte])
            expect(f"NVFP4's elements {what}", got.flatten(), elements)
    square = torch.zeros(32, 32)
    square[3, 20] = 6
    square[20, 20] = 3
    scale = nvfp4_parts(square, 1, square=True)[0].float().flatten()
    expect("NVFP4's squares", scale, [0.0, 448, 0, 224])
    expect("NVFP4's values in squares", nvfp4(square, 1, square=True), square.to(torch.bfloat16))
    expect("NVFP4 of zeros", nvfp4(torch.zeros(16, 16), 0), torch.zeros(16, 16))

    torch.manual_seed(1)
    means = [round_to_e2m1(torch.full((40000,), x), True).mean().item() for x in (0.1, 2.3, -4.5)]
    expect("stochastic rounding's means", [round(m, 1) for m in means], [0.1, 2.3, -4.5])
    eye = torch.eye(16).to(torch.bfloat16)
    expect("transforms cancel out", torch.matmul(turned(eye).t(), turned(eye)), eye)

    # Near enough to FP32's product and gradients, over all three products.
    x, w, bias, dy = (torch.randn(s) for s in ((64, 96), (32, 96), (32,), (64, 32)))
    x, dy = x.to(torch.bfloat16), dy.to(torch.bfloat16)
    x32, dy32 = x.float(), dy.float()
    wanted = F.linear(x32, w, bias), dy32 @ w, dy32.t() @ x32, dy32.sum(0)
    for function, most in [(Mxfp8Linear, 0.05), (Nvfp4Linear, 0.25)]:
        leaves = [t.clone().requires_grad_() for t in (x, w, bias)]
        y = function.apply(*leaves)
        y.backward(dy)
        gotten = [y] + [t.grad for t in leaves]
        for what, got, exact in zip(("y", "dx", "dw", "db"), gotten, wanted):
            error = ((got.float() - exact).norm() / exact.norm()).item()
            expect(f"{function.__name__}'s {what}, {error:.4f} off", error < most, True)

    if compiled:
        big = torch.randn(64, 96) * torch.exp2(torch.randint(-20, 20, (64, 96)).float())
        for what, f in [("MXFP8 along columns", lambda t: mxfp8(t, 1)),
                        ("MXFP8 along rows", lambda t: mxfp8(t, 0)),
                        ("NVFP4 in squares", lambda t: nvfp4(t, 1, square=True)),
                        ("NVFP4 along rows", lambda t: nvfp4(t, 0))]:
            expect(f"{what}, compiled", torch.compile(f)(big), f(big))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=["bf16", "fp32", "mxfp8", "nvfp4"], default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--steps", type=int, default=0, help="run these and leave")
    parser.add_argument("--smoke", action="store_true", help="a tiny model")
    parser.add_argument("--check", action="store_true", help="the formats on known values")
    a = parser.parse_args()

    torch.set_num_threads(a.threads)
    if a.check:
        check(compiled=not a.no_compile and hasattr(torch, "compile"))
        return
    torch.manual_seed(1)
    shape = SMOKE if a.smoke else GPT2_124M
    model = GPT2(shape, a.dtype)
    optimizer = optimizer_of(model)
    loss_of = model
    if not a.no_compile and hasattr(torch, "compile"):
        loss_of = torch.compile(model)
        if a.dtype == "nvfp4" and a.threads < 4:
            # Compiled random numbers take 10 ns each, on all threads; the others 3 ns, on one.
            from torch._inductor import config

            config.fallback_random = True
    ids = torch.randint(0, min(50257, shape.vocab), (a.batch, shape.context + 1))

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype != "fp32"):
            loss = loss_of(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def timed(n):
        for _ in range(n):
            begin = time.perf_counter()
            loss = step()
            print(f"{time.perf_counter() - begin:.6f}", flush=True)
            if not math.isfinite(loss):
                sys.exit(f"the loss is {loss}")
        print("end", flush=True)

    for _ in range(2):  # compiles, allocates
        step()
    print(f"PyTorch {torch.__version__}, {a.dtype}, compiled: {loss_of is not model}",
          file=sys.stderr)
    print("ready", flush=True)
    if a.steps:
        timed(a.steps)
        return
    for line in sys.stdin:
        timed(int(line))


if __name__ == "__main__":
    main()
