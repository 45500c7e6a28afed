"""Seconds that the `tokenizers` package takes to encode a text on one thread, cut at lines as ours is.

usage: tokenizers_encode.py TOKENIZER.json TEXT
"""

import sys
import time

from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(sys.argv[1])
text = open(sys.argv[2], encoding="utf-8", newline="").read()
parts = []
while text:
    cut = text.find("\n", 1 << 18) + 1 or len(text)
    parts.append(text[:cut])
    text = text[cut:]
start = time.perf_counter()
for part in parts:
    tokenizer.encode(part)
print(time.perf_counter() - start)
