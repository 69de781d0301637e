"""Run by LLaMA-Factory's own Python: the printed line as its parser reads it, as JSON."""

import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

# Imported for audio data alone; its wheels need the CUDA build of torch.
sys.modules["torchaudio"] = ModuleType("torchaudio")
sys.modules["torchaudio"].__spec__ = ModuleSpec("torchaudio", None)

from llamafactory.hparams import DataArguments  # noqa: E402
from llamafactory.hparams.parser import read_args  # noqa: E402
from transformers import HfArgumentParser  # noqa: E402

answer, *words = sys.argv[1:]
assert words[:2] == ["llamafactory-cli", "train"]
Path(words[2]).write_text("template: chatml\n")
sys.argv = words[1:]
settings = read_args()
stage = settings.pop("stage")
(data,) = HfArgumentParser(DataArguments).parse_dict(settings)
names = data.dataset or data.eval_dataset
found = {"names": names, "info": f"{data.dataset_dir}/dataset_info.json", "stage": stage}
masks = {"mask_history": data.mask_history, "train_on_prompt": data.train_on_prompt}
Path(answer).write_text(json.dumps({**found, "settings": masks}))
