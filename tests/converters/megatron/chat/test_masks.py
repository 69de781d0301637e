"""Loss masks: tokens that hold a trained character, for tokenizers of every kind."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ingot.converters.megatron.chat.loss_masks import (
    LossMasker,
    TrainedSpans,
    read_token_bytes,
)
from ingot.converters.megatron.chat.rendering import TextSpan
from ingot.converters.megatron.engines.engine import Encoded, EngineWrongError, open_reference
from ingot.converters.megatron.tokenizer import TokenizerFile, load_tokenizer

CORPUS = [
    "The quick brown fox jumps over the lazy dog. 敏捷的棕色狐狸。 Été, naïve; 👍🏽 1234",
    "def add(a: int, b: int) -> int:\n    return a + b\n\n",
] * 20
SPECIAL = ["<|im_start|>", "<|im_end|>"]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
        ),
    )
    return tokenizer


def normalizing() -> Tokenizer:
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    return tokenizer


def prefixing() -> Tokenizer:
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def metaspace() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.UnigramTrainer(
            vocab_size=200,
            special_tokens=["<unk>", *SPECIAL],
            unk_token="<unk>",
            show_progress=False,
        ),
    )
    return tokenizer


def word_pieces() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", *SPECIAL]
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False),
    )
    return tokenizer


MADE = {one.__name__: one for one in (byte_level, normalizing, prefixing, metaspace, word_pieces)}
KINDS = [*MADE, "bpe.model", "unigram.model"]


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TokenizerFile]:
    """One tokenizer of every kind, trained here."""
    folder = tmp_path_factory.mktemp("kinds")
    files: dict[str, Path] = {}
    for name, make in MADE.items():
        files[name] = folder / name / "tokenizer.json"
        files[name].parent.mkdir()
        make().save(str(files[name]))
    for kind in ("bpe", "unigram"):
        files[f"{kind}.model"] = folder / f"{kind}.model"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_prefix=str(folder / kind),
            model_type=kind,
            vocab_size=350 if kind == "bpe" else 330,
            byte_fallback=True,
            minloglevel=2,
            hard_vocab_limit=False,
        )
    return {name: load_tokenizer(file) for name, file in files.items()}


def encode(loaded: TokenizerFile, texts: list[str], plain: bool = False) -> Encoded:
    return open_reference(loaded, plain=plain).encode(arrow(texts))


def arrow(texts: list[str]) -> pa.LargeStringArray:
    return pa.array(texts, pa.large_string())


spans_of = TrainedSpans.of_texts


def trained(loaded: TokenizerFile, text: str, start: int, end: int) -> list[str]:
    """What the trained tokens of a byte-level tokenizer decode to, each by itself."""
    encoded = encode(loaded, [text])
    span = TextSpan(start=start, end=end, trained=True)
    mask = LossMasker(loaded).mask(arrow([text]), spans_of([text], [[span]]), encoded)
    tokenizer = Tokenizer.from_str(loaded.data.decode())
    picked = encoded.ids[mask == 1].tolist()
    return [tokenizer.decode([one], skip_special_tokens=False) for one in picked]


def test_a_token_across_the_border_is_trained(tokenizers: dict[str, TokenizerFile]) -> None:
    loaded = tokenizers["byte_level"]
    text = "<|im_start|>a\n\n\nThe fox<|im_end|>\n"
    start = text.index("\nThe")
    spans = trained(loaded, text, start, text.index("<|im_end|>") + len("<|im_end|>"))
    assert spans[-1] == "<|im_end|>"
    assert "".join(spans).lstrip("\n") == "The fox<|im_end|>"


def test_every_token_of_a_cut_character_is_trained(tokenizers: dict[str, TokenizerFile]) -> None:
    text = "a🦀b"
    loaded = tokenizers["byte_level"]
    encoded = encode(loaded, [text])
    assert len(encoded.ids) > 4
    spans = spans_of([text], [[TextSpan(start=1, end=2, trained=True)]])
    mask = LossMasker(loaded).mask(arrow([text]), spans, encoded)
    assert mask.tolist() == [0, *[1] * (len(encoded.ids) - 2), 0]


@pytest.mark.parametrize("kind", KINDS)
def test_all_nothing_and_failed_texts(tokenizers: dict[str, TokenizerFile], kind: str) -> None:
    loaded = tokenizers[kind]
    texts = ["The fox", "", "lazy dog", "dog"]
    encoded = encode(loaded, texts)
    spans = [
        [TextSpan(start=-3, end=99, trained=True)],
        [TextSpan(start=0, end=4, trained=True)],
        [TextSpan(start=0, end=8, trained=False), TextSpan(start=4, end=4, trained=True)],
        [],
    ]
    mask = LossMasker(loaded).mask(arrow(texts), spans_of(texts, spans), encoded)
    first = int(encoded.lengths[0])
    assert mask.dtype == np.uint8
    assert mask.tolist() == [1] * first + [0] * (len(encoded.ids) - first)
    none = Encoded(ids=encoded.ids[:0], lengths=np.zeros(1, np.int64), failed=((0, "no"),))
    assert LossMasker(loaded).mask(arrow(["x"]), spans_of(["x"], spans[:1]), none).tolist() == []


PARTS = ["The", " fox", "\n", "\n\n", "  ", "é", "e\u0301", "世界", "狐狸", "👍🏽", "🦀", *SPECIAL]
PARTS += ["</s>", "▁", "<0x41>", "\u3000", "\ufb01", "İ", "\u200d", "\t", "1", "x" * 30]


@st.composite
def marked_texts(draw: st.DrawFn) -> tuple[str, list[TextSpan]]:
    text = "".join(draw(st.lists(st.sampled_from(PARTS), max_size=14)))
    places = sorted(draw(st.lists(st.integers(0, len(text)), min_size=4, max_size=4)))
    first = TextSpan(start=places[0], end=places[1], trained=True)
    return text, [first, TextSpan(start=places[2], end=places[3], trained=draw(st.booleans()))]


@pytest.mark.more
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(data=st.lists(marked_texts(), min_size=1, max_size=8))
def test_masks_are_those_of_the_librarys_offsets(
    tokenizers: dict[str, TokenizerFile],
    kind: str,
    plain: bool,
    data: list[tuple[str, list[TextSpan]]],
) -> None:
    loaded = tokenizers[kind]
    texts = [text for text, _ in data]
    encoded = encode(loaded, texts, plain)
    spans = spans_of(texts, [spans for _, spans in data])
    mask = LossMasker(loaded, plain=plain).mask(arrow(texts), spans, encoded)
    expected = [one for text, spans in data for one in by_offsets(loaded, text, spans, plain)]
    assert mask.tolist() == expected


def by_offsets(loaded: TokenizerFile, text: str, spans: list[TextSpan], plain: bool) -> list[int]:
    if loaded.kind == "sentencepiece":
        model = sentencepiece.SentencePieceProcessor(model_proto=loaded.data)
        offsets = model.encode(text, return_type="offset_mapping")["offsets"]
    else:
        tokenizer = Tokenizer.from_str(loaded.data.decode())
        tokenizer.encode_special_tokens = plain
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    return [
        int(any(one.trained and covers(one, start, end) for one in spans)) for start, end in offsets
    ]


def covers(span: TextSpan, start: int, end: int) -> bool:
    return span.start < span.end and start < span.end and max(end, start + 1) > span.start


@pytest.mark.parametrize("kind", ["bpe.model", "unigram.model"])
def test_a_token_of_one_byte_is_that_byte(tokenizers: dict[str, TokenizerFile], kind: str) -> None:
    loaded = tokenizers[kind]
    pieces = sentencepiece.SentencePieceProcessor(model_proto=loaded.data)
    spellings = read_token_bytes(loaded).spellings.to_pylist()
    assert spellings[pieces.piece_to_id("<0x0A>")] == b"\n"


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_another_text_are_an_error(tokenizers: dict[str, TokenizerFile], kind: str) -> None:
    loaded = tokenizers[kind]
    encoded = encode(loaded, ["The fox"])
    spans = spans_of(["The dog"], [[TextSpan(start=0, end=3, trained=True)]])
    with pytest.raises(EngineWrongError, match="quick gives other ids"):
        LossMasker(loaded).mask(arrow(["The dog"]), spans, encoded, engine="quick")
