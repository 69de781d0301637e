"""Run by ms-swift's own Python: the printed line as its parser reads it, as JSON."""

import dataclasses
import json
import sys
from pathlib import Path

from swift.arguments import PretrainArguments, SftArguments
from swift.arguments.base_args.data_args import DataArguments
from swift.dataset import DATASET_MAPPING
from swift.utils import parse_args

answer, *words = sys.argv[1:]
assert words[0] == "swift"
arguments = {"sft": SftArguments, "pt": PretrainArguments}[words[1]]
# The arguments of a run load a model when they are made; those of its data register the data sets.
data, rest = parse_args(DataArguments, words[2:])
settings = dict(zip([key.removeprefix("--") for key in rest[::2]], rest[1::2], strict=True))
assert settings.keys() <= {field.name for field in dataclasses.fields(arguments)}
names = data.dataset or data.val_dataset
assert data.strict
assert set(names) <= DATASET_MAPPING.keys()
(info,) = data.custom_dataset_info
found = {"names": names, "info": info, "stage": words[1], "settings": settings}
Path(answer).write_text(json.dumps(found))
