"""Run by torchtune's own Python: the examples that it makes of an export, as JSON."""

import json
import os
import sys
from pathlib import Path

from omegaconf import OmegaConf
from torchtune import config
from torchtune.models.qwen2 import Qwen2Tokenizer

out, tokens, answer = map(Path, sys.argv[1:])
os.chdir(out)
special = {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}
tokenizer = Qwen2Tokenizer(
    str(tokens / "vocab.json"), str(tokens / "merges.txt"), special_tokens=special
)
dataset = config.instantiate(OmegaConf.load("torchtune.yaml").dataset, tokenizer)
rows = [
    {"ids": list(map(int, row["tokens"])), "labels": list(map(int, row["labels"]))}
    for row in (dataset[place] for place in range(len(dataset)))
]
answer.write_text(json.dumps(rows))
