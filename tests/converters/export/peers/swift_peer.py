"""Run by ms-swift's own Python: the examples that it makes of an export, as JSON."""

import json
import os
import sys
from pathlib import Path

import yaml
from swift.dataset import load_dataset, register_dataset_info
from swift.model import get_processor
from swift.template import get_template

out, tokens, answer = map(Path, sys.argv[1:])
os.chdir(out)
settings = yaml.safe_load(Path("swift.yaml").read_text())
for info in settings["custom_dataset_info"]:
    register_dataset_info(info)
data, _ = load_dataset(settings["dataset"], strict=settings["strict"])
texts = "loss_scale" not in settings  # `swift pt`: no chat template, everything is trained on
template = get_template(
    get_processor(str(tokens), model_type="qwen2"),
    template_type="chatml",
    agent_template="hermes",
    use_chat_template=not texts,
    loss_scale="all" if texts else settings["loss_scale"],
)
template.set_mode("train")
made = [template.encode(row) for row in data]
answer.write_text(json.dumps([{"ids": row["input_ids"], "labels": row["labels"]} for row in made]))
