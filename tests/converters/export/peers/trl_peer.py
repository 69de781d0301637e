"""Run by TRL's own Python: the examples that its SFT trainer makes of an export, as JSON."""

import json
import os
import sys
from pathlib import Path

import yaml
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import DatasetMixtureConfig, SFTConfig, SFTTrainer, get_dataset
from trl.scripts.utils import DatasetConfig

out, tokens, answer = map(Path, sys.argv[1:])
os.chdir(out)
settings = yaml.safe_load(Path("trl.yaml").read_text())
entries = [DatasetConfig(**entry) for entry in settings.pop("datasets")]
data = get_dataset(DatasetMixtureConfig(datasets=entries))["train"]
tokenizer = AutoTokenizer.from_pretrained(tokens)
shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
heads = {"num_attention_heads": 1, "num_key_value_heads": 1}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **shape, **heads))
args = SFTConfig(output_dir=str(answer.parent / "trl"), report_to="none", bf16=False, **settings)
trainer = SFTTrainer(model=model, args=args, train_dataset=data, processing_class=tokenizer)
rows = [{"ids": row["input_ids"], "labels": row["labels"]} for row in trainer.train_dataset]
answer.write_text(json.dumps(rows))
