"""The example data sets through the whole job: what is decided, how much comes out, one record each."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tokenizers import Tokenizer

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TOKENIZER = EXAMPLES / "tokenizer" / "tokenizer.json"
NO_META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)


def script(name: str) -> ModuleType:
    """A script of examples/, imported by its path."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_tokenizer_is_what_training_gives(tmp_path):
    script("train_tokenizer").main(tmp_path / "fresh.json")
    assert (tmp_path / "fresh.json").read_bytes() == TOKENIZER.read_bytes()


@pytest.mark.parametrize(
    "text", ["枇杷树上有两只斑鸠。", " don't\t\n\n  stop", "𝄞 é e\u0301 ﷽", "<|im_start|>user\n\n"]
)
def test_every_text_survives_the_tokenizer(text):
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_are_whole_and_first():
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    ids = tokenizer.encode("<|endoftext|><|im_start|><|im_end|>").ids
    assert ids == [0, 1, 2]
