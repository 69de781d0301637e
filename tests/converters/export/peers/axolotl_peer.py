"""Run by axolotl's own Python: the examples that it makes of an export, as JSON."""

import json
import os
import sys
from pathlib import Path

import yaml
from axolotl.utils.data.shared import load_dataset_with_config
from axolotl.utils.data.wrappers import get_dataset_wrapper
from axolotl.utils.dict import DictDefault
from axolotl.utils.schemas.datasets import SFTDataset
from transformers import AutoTokenizer

out, tokens, answer = map(Path, sys.argv[1:])
os.chdir(out)
entry = yaml.safe_load(Path("axolotl.yaml").read_text())["datasets"][0]
SFTDataset(**entry)
tokenizer = AutoTokenizer.from_pretrained(tokens)
cfg = DictDefault(
    {
        "sequence_len": 4096,
        "train_on_inputs": False,
        "chat_template": "tokenizer_default",
        "dataset_num_proc": 1,
        "datasets": [entry],
    }
)
config = DictDefault(entry)
data = load_dataset_with_config(config, use_auth_token=False)
base, _, style = entry["type"].partition(":")
dataset, _ = get_dataset_wrapper(config, tokenizer, cfg, base, data, style or None)
rows = [{"ids": row["input_ids"], "labels": row["labels"]} for row in dataset]
answer.write_text(json.dumps(rows))
