"""Data for the token tests: golden documents, megatron-core's own module, small tokenizers."""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ingot.converters.megatron.indexed_dataset import WRITTEN_CODES, TokenDtype, write_index

GOLDEN = Path(__file__).parents[2] / "golden" / "tokenize"

CORPUS = [
    "The quick brown fox jumps over the lazy dog. 敏捷的棕色狐狸。",
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "床前明月光，疑是地上霜。举头望明月，低头思故乡。",
]


@pytest.fixture(scope="session")
def golden_documents() -> list[np.ndarray[Any, Any]]:
    """Token ids of the 200 golden documents, uint16, 12 of them empty."""
    with np.load(GOLDEN / "gpt2_documents.npz", allow_pickle=False) as arrays:
        ids, lengths = arrays["ids"], arrays["lengths"]
    return np.split(ids, np.cumsum(lengths)[:-1])


@pytest.fixture(scope="session")
def golden_manifest() -> dict[str, dict[str, Any]]:
    """Counts and md5 of what megatron-core wrote."""
    manifest: dict[str, dict[str, Any]] = json.loads((GOLDEN / "manifest.json").read_text())
    return manifest["datasets"]


@pytest.fixture(scope="session")
def megatron() -> Iterator[ModuleType]:
    """megatron-core's indexed_dataset module (test environment: torch, megatron-core)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about CUDA extensions that it does without
        pytest.importorskip("megatron", reason="megatron-core is not installed")
        from megatron.core.datasets import indexed_dataset

        yield indexed_dataset


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer of 320 tokens with `<|endoftext|>` (id 0) and the ChatML marks."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    # What such a file may carry, and must not cut or pad documents:
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=8)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture
def word_tokenizer_file(tmp_path: Path) -> Path:
    """A word-level tokenizer without an unknown token: it knows `known` and `</s>` alone."""
    tokenizer = Tokenizer(models.WordLevel({"known": 0, "</s>": 1}))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["</s>"])
    folder = tmp_path / "word"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


Documents = list[list[list[int]]]  # of documents, of sequences, of ids
Written = Callable[..., Path]


@pytest.fixture
def data_set(tmp_path: Path) -> Written:
    """Writes a finished data set, with loss masks and facts where they are given; its prefix."""

    def write(
        documents: Documents,
        masks: Documents | None = None,
        meta: object = None,
        *,
        name: str = "set",
        dtype: TokenDtype = "uint16",
    ) -> Path:
        prefix = tmp_path / name
        _write(prefix, documents, np.dtype(dtype), WRITTEN_CODES[dtype])
        if masks is not None:
            _write(prefix.with_name(name + ".loss_mask"), masks, np.dtype(np.uint8), 1)
        if meta is not None:
            prefix.with_name(name + ".meta.json").write_text(json.dumps(meta), "utf-8")
        return prefix

    return write


def _write(prefix: Path, documents: Documents, dtype: np.dtype[Any], code: int) -> None:
    sequences = [sequence for document in documents for sequence in document]
    ids = np.array([i for sequence in sequences for i in sequence], dtype)
    prefix.with_name(prefix.name + ".bin").write_bytes(ids.tobytes())
    lengths = [np.array([len(sequence) for sequence in sequences], np.int64)]
    sizes = [np.array([len(document) for document in documents], np.int64)]
    write_index(
        prefix.with_name(prefix.name + ".idx"), code, lambda: iter(lengths), lambda: iter(sizes)
    )
