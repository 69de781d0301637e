"""Small tokenizers of every kind, texts, and an engine that is wrong on purpose."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from ingot.converters.megatron.engines.engine import Encoded, Engine, open_reference
from ingot.converters.megatron.engines.fast_engines import FAST_ENGINES, FastEngine
from ingot.converters.megatron.tokenizer import TokenizerFile, load_tokenizer

GOLDEN = Path(__file__).parents[3] / "golden" / "tokenize"
CORPUS = [
    "The quick brown fox jumps over the lazy dog. 敏捷的棕色狐狸。 Don't stop: it's 12,345!\n",
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "床前明月光，疑是地上霜。举头望明月，低头思故乡。 Ça va? Étude naïve.",
] * 20
ALPHABET = pre_tokenizers.ByteLevel.alphabet()
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<|endoftext|>", "<|im_end|>"]
    train(tokenizer, trainers.BpeTrainer, 400, special, initial_alphabet=ALPHABET)
    tokenizer.add_tokens(["<added>"])
    return tokenizer


def composing() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    train(tokenizer, trainers.BpeTrainer, 400, ["<|endoftext|>"], initial_alphabet=ALPHABET)
    return tokenizer


def byte_fallback() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    train(tokenizer, trainers.BpeTrainer, 500, special)
    return tokenizer


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    train(tokenizer, trainers.WordPieceTrainer, 200, ["[UNK]", "[SEP]"])
    return tokenizer


def closed() -> Tokenizer:
    """A vocabulary without an unknown token: it refuses other words."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def train(tokenizer: Tokenizer, trainer: type, size: int, special: list[str], **more) -> None:
    made = trainer(vocab_size=size, special_tokens=special, show_progress=False, **more)
    tokenizer.train_from_iterator(CORPUS, made)


MADE = {
    "byte_level": byte_level,
    "composing": composing,
    "byte_fallback": byte_fallback,
    "word_piece": word_piece,
    "closed": closed,
}


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TokenizerFile]:
    """Tokenizers by name; `sp_*` are SentencePiece models."""
    folder = tmp_path_factory.mktemp("zoo")
    paths = {"gpt2": GOLDEN / "gpt2.json"}
    paths |= {name: GOLDEN / f"{name}.model" for name in ("sp_bpe", "sp_uni")}
    for name, make in MADE.items():
        paths[name] = folder / f"{name}.json"
        make().save(str(paths[name]))
    return {name: load_tokenizer(path) for name, path in paths.items()}


@pytest.fixture(scope="session")
def documents() -> pa.LargeStringArray:
    """The 200 golden documents."""
    column = pq.read_table(GOLDEN / "docs.parquet", columns=["text"])["text"]
    return column.combine_chunks().cast(pa.large_string())


@pytest.fixture(scope="session")
def pieces() -> dict[str, list[tuple[str, list[int]]]]:
    """What sentencepiece itself gave: text and ids, by model."""
    found = {}
    for name in ("sp_bpe", "sp_uni"):
        lines = (GOLDEN / f"{name}_ids.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        found[name] = [(row["text"], row["ids"]) for row in rows]
    return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Verdicts of a test are its own."""
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@dataclass
class Planted:
    """An engine that changes the last id of every text that holds one of some markers."""

    exact: Engine
    markers: tuple[str, ...]
    name: str = "planted"

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        encoded = self.exact.encode(texts)
        ids, bounds = encoded.ids.copy(), np.cumsum(encoded.lengths)
        for text, end, length in zip(texts.to_pylist(), bounds, encoded.lengths, strict=True):
            if length and any(marker in text for marker in self.markers):
                ids[end - 1] ^= 1
        return Encoded(ids=ids, lengths=encoded.lengths, failed=encoded.failed)


def _plant(*markers: str) -> FastEngine:
    def opened(loaded: TokenizerFile, *, plain: bool, threads: int) -> Engine:
        return Planted(open_reference(loaded, plain=plain), markers)

    return FastEngine(
        name="planted",
        distribution="tokenizers",
        proved=frozenset({tokenizers.__version__}),
        open=opened,
        routes_new_letters=False,
        grows=False,
    )


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], FastEngine]:
    """Makes the only fast engine there is one that is wrong on texts with a marker."""

    def only(marker: str) -> FastEngine:
        for name in list(FAST_ENGINES):
            monkeypatch.delitem(FAST_ENGINES, name)
        fast = _plant(marker)
        monkeypatch.setitem(FAST_ENGINES, "planted", fast)
        return fast

    return only
