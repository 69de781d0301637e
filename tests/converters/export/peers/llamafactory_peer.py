"""Run by LLaMA-Factory's own Python: the examples that it makes of an export, as JSON."""

import json
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import yaml

# Imported for audio data alone; its wheels need the CUDA build of torch.
sys.modules["torchaudio"] = ModuleType("torchaudio")
sys.modules["torchaudio"].__spec__ = ModuleSpec("torchaudio", None)

from llamafactory.data import get_dataset, get_template_and_fix_tokenizer  # noqa: E402
from llamafactory.hparams import DataArguments, ModelArguments  # noqa: E402
from transformers import AutoTokenizer, Seq2SeqTrainingArguments  # noqa: E402

out, tokens, answer = map(Path, sys.argv[1:])
os.chdir(out)
settings = yaml.safe_load(Path("llamafactory.yaml").read_text())
stage = settings.pop("stage")
data_args = DataArguments(template="chatml", cutoff_len=4096, overwrite_cache=True, **settings)
model_args = ModelArguments(model_name_or_path=str(tokens))
training = Seq2SeqTrainingArguments(output_dir=str(answer.parent / "llamafactory"), report_to=[])
tokenizer = AutoTokenizer.from_pretrained(tokens)
template = get_template_and_fix_tokenizer(tokenizer, data_args)
module = get_dataset(template, model_args, data_args, training, stage=stage, tokenizer=tokenizer)
rows = [
    {"ids": row["input_ids"], "labels": row.get("labels", row["input_ids"])}
    for row in module["train_dataset"]
]
answer.write_text(json.dumps(rows))
