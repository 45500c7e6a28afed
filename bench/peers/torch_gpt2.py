"""A training step of GPT-2 124M in PyTorch, as fast as PyTorch goes on this CPU without leaving its
own means: BF16 autocast (or FP32), scaled_dot_product_attention, fused AdamW, torch.compile.

With --dtype mxfp8 or nvfp4 linear layers are emulated, as one does it in PyTorch on a machine
without such units: operands are quantised and dequantised by tensor operations, anew for each
product that reads them, and multiplied. Attention and the head are not, nor with nvfp4 the last
15 % of the blocks. Of the manners of torch_emulation.py, lean multiplies BF16 under autocast and
is compiled; public and microxcaling are FP32 throughout and are not.

Speaks a line protocol so that compare.sh can alternate it with another program: it prints "ready",
and then for each line "N" on stdin runs N steps and prints their seconds, one a line, then "end".

    python torch_gpt2.py --dtype bf16 --threads 2 [--no-compile] [--batch 8] [--steps 3] [--smoke]
                         [--emulation lean|public | --microxcaling FOLDER]
    python torch_gpt2.py --check [--no-compile] [--microxcaling FOLDER]

--check holds the emulated formats against known values. FOLDER is a clone of microxcaling.
"""

import argparse
import collections
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_check import check
from torch_emulation import EMULATIONS, linears_of

Shape = collections.namedtuple("Shape", "vocab context width layers heads")
GPT2_124M = Shape(50304, 1024, 768, 12, 12)
SMOKE = Shape(512, 64, 64, 2, 2)


class Block(nn.Module):
    def __init__(self, shape, linear):
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = linear(width, 3 * width)
        self.out = linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = linear(width, 4 * width)
        self.down = linear(4 * width, width)

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
    def __init__(self, shape, linears):
        super().__init__()
        self.token = nn.Embedding(shape.vocab, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape, linear) for linear in linears)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=["bf16", "fp32", "mxfp8", "nvfp4"], default="bf16")
    parser.add_argument("--emulation", choices=EMULATIONS, help="of mxfp8 and nvfp4; else lean")
    parser.add_argument("--microxcaling", metavar="FOLDER", help="emulate with this clone of it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--steps", type=int, default=0, help="run these and leave")
    parser.add_argument("--smoke", action="store_true", help="a tiny model")
    parser.add_argument("--check", action="store_true", help="the formats on known values")
    a = parser.parse_args()

    emulation = a.emulation or ("microxcaling" if a.microxcaling else "lean")
    if a.microxcaling and emulation != "microxcaling":
        parser.error(f"--microxcaling is another emulation than {emulation}; leave one of them out")
    if emulation == "microxcaling" and not a.microxcaling:
        parser.error("--emulation microxcaling needs --microxcaling FOLDER, a clone of it")
    if emulation == "microxcaling" and a.dtype != "mxfp8" and not a.check:
        parser.error(f"microxcaling is for --dtype mxfp8, not {a.dtype}")
    if emulation == "public" and a.dtype in ("bf16", "fp32") and not a.check:
        parser.error(f"{a.dtype} is not emulated; --emulation is for mxfp8 and nvfp4")

    compiled = not a.no_compile and emulation == "lean" and hasattr(torch, "compile")
    torch.set_num_threads(a.threads)
    if a.check:
        check(not a.no_compile and hasattr(torch, "compile"), a.microxcaling)
        return
    torch.manual_seed(1)
    shape = SMOKE if a.smoke else GPT2_124M
    model = GPT2(shape, linears_of(a.dtype, shape.layers, emulation, a.microxcaling))
    optimizer = optimizer_of(model)
    loss_of = model
    if compiled:
        loss_of = torch.compile(model)
        if a.dtype == "nvfp4" and a.threads < 4:
            # Compiled random numbers take 10 ns each, on all threads; the others 3 ns, on one.
            from torch._inductor import config

            config.fallback_random = True
    autocast = a.dtype != "fp32" and emulation == "lean"
    ids = torch.randint(0, min(50257, shape.vocab), (a.batch, shape.context + 1))

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
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
    manner = f", emulation {emulation}" if a.dtype in ("mxfp8", "nvfp4") else ""
    print(f"PyTorch {torch.__version__}, {a.dtype}{manner}, compiled: {compiled}", file=sys.stderr)
    print("ready", flush=True)
    if a.steps:
        timed(a.steps)
        return
    for line in sys.stdin:
        timed(int(line))


if __name__ == "__main__":
    main()
