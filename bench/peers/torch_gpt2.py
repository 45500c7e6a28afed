"""A training step of GPT-2 124M in PyTorch, as fast as PyTorch goes on this CPU without leaving its
own means: BF16 autocast (or FP32), scaled_dot_product_attention, fused AdamW, torch.compile.

Speaks a line protocol so that compare.sh can alternate it with another program: it prints "ready",
and then for each line "N" on stdin runs N steps and prints their seconds, one a line, then "end".

    python torch_gpt2.py --dtype bf16 --threads 2 [--no-compile] [--batch 8] [--steps 3]
"""

import argparse
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, CONTEXT, WIDTH, LAYERS, HEADS = 50304, 1024, 768, 12, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, HEADS, C // HEADS).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:  # before PyTorch 2
            scores = q @ k.transpose(-2, -1) / math.sqrt(C // HEADS)
            mask = torch.ones(T, T, dtype=torch.bool).tril()
            y = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)  # the head is the embedding
        return F.cross_entropy(logits.view(-1, VOCAB).float(), targets.view(-1))


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
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--steps", type=int, default=0, help="run these and leave")
    a = parser.parse_args()

    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = GPT2()
    optimizer = optimizer_of(model)
    loss_of = model
    if not a.no_compile and hasattr(torch, "compile"):
        loss_of = torch.compile(model)
    ids = torch.randint(0, 50257, (a.batch, CONTEXT + 1))

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
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
