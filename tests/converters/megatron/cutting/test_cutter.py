"""Cutting long texts: the ids of the pieces are the ids of the whole, for every tokenizer."""

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, trainers
from tokenizers import pre_tokenizers as pre

from ingot.converters.megatron.text.cut_rules import CutRules, read_rules
from ingot.converters.megatron.text.long_texts import CutPiece, CutStream, Cutter, UncuttableError
from ingot.converters.megatron.text.pre_tokenization import is_plain
from ingot.converters.megatron.text.regex_syntax import UnprovableError, regex_pattern
from ingot.converters.megatron.tokenizer import TokenizerFile, load_tokenizer

GOLDEN = Path(__file__).parents[3] / "golden" / "tokenize"

PROSE = (
    "The reader of a book does not see how its pages were cut, and that's how it should be. "
    "In 1984, they'd sold 12345 copies; nobody knows why!\nA second line follows the first one.\n\n"
    "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少？ Стихи и проза, лёд и пламень. "
    "Ὀδυσσεύς ἦλθεν. Mot à mot, œuvre naïve: déjà vu. def f(x):\n    return x + 1\n"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
POSSESSIVE = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)

ADDED = [
    AddedToken("<|end|>", special=True, normalized=False),
    AddedToken("<left>", lstrip=True, special=True, normalized=False),
    AddedToken("<right>", rstrip=True, special=True, normalized=False),
    AddedToken("word", single_word=True, special=False, normalized=True),
    AddedToken("    ", special=False, normalized=True),
    AddedToken("a b", special=False, normalized=False),
    AddedToken("Éa", lstrip=True, rstrip=True, special=False, normalized=True),
]

FRAGMENTS = [
    *"abAZ019 \n\t\r.,;'\"!_-/<>|▁",
    *("  ", "   ", " \n", "\r\n", "\n\n", "\u00a0", "\u3000", "\u2028", "\x85", "\x1c", "\u200b"),
    *("'s", "'S", "'ſ", "don't", "I'LL", "we've", "ſ", "ß", "ﬆ", "ς", "Σ", "İ", "K", "Å"),
    *("e\u0301", "\u0301", "é", "Éa", "E\u0301a", "\u0300\u0316", "½", "ﬁ", "Ⅷ", "ﷺ", "ʰ"),
    *("中", "国", "。", "，", "か", "が", "か\u3099", "カ", "ﾞ", "가", "\u1100", "\u1161", "각"),
    *("नमस्ते", "ไทย", "ำ", "שלום", "مرحبا", "\u0bc7\u0bbe", "\U00016d67", "\U000113c2"),
    *("🙂", "👩\u200d👧", "🇨🇳", "👍🏽", "❤\ufe0f", "\u200d", "\ufeff", "\x00", "\ufffd", "\u0378"),
    *("<|end|>", " <|end|> ", "<left>", " <left>", "<right>", "<right>  ", "word", "a b", "    "),
    *("wordy", "1234567", "the", " the", "hello", " hello", "foo_bar", "Стихи", "ἦλθεν", "λόγος "),
]
TEXTS = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=4)), min_size=1, max_size=60
).map("".join)


def bpe(**options: Any) -> Tokenizer:
    return Tokenizer(models.BPE(**options))


def byte_level() -> Tokenizer:
    tokenizer = bpe()
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    return tokenizer


def prefixed_byte_level() -> Tokenizer:
    tokenizer = bpe()
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=True)
    return tokenizer


def composed() -> Tokenizer:
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def split_by(pattern: str, behavior: str = "isolated", invert: bool = False) -> Tokenizer:
    tokenizer = bpe()
    tokenizer.pre_tokenizer = pre.Sequence(
        [
            pre.Split(Regex(pattern), behavior, invert),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return tokenizer


def digits_first() -> Tokenizer:
    tokenizer = bpe()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre.Sequence(
        [
            pre.Digits(individual_digits=True),
            pre.Split(Regex(r"\p{N}{1,3}"), "isolated"),
            pre.Split(Regex(r"[一-龥]+"), "isolated"),
            pre.ByteLevel(add_prefix_space=False),
        ]
    )
    return tokenizer


def prepended() -> Tokenizer:
    tokenizer = bpe(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return tokenizer


def metaspace(scheme: str, split: bool = True) -> Tokenizer:
    tokenizer = bpe(unk_token="<unk>", fuse_unk=True)
    tokenizer.pre_tokenizer = pre.Metaspace(prepend_scheme=scheme, split=split)
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre.Metaspace(prepend_scheme="always")
    return tokenizer


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre.BertPreTokenizer()
    return tokenizer


def accents_stripped() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]
    )
    tokenizer.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation()])
    return tokenizer


def stripped() -> Tokenizer:
    tokenizer = bpe()
    tokenizer.normalizer = normalizers.Strip()
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    return tokenizer


def words() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre.Whitespace()
    return tokenizer


def scripts() -> Tokenizer:
    tokenizer = bpe(unk_token="<unk>", fuse_unk=True)
    tokenizer.pre_tokenizer = pre.Sequence([pre.UnicodeScripts(), pre.WhitespaceSplit()])
    return tokenizer


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "byte_level": byte_level,
    "prefixed_byte_level": prefixed_byte_level,
    "composed": composed,
    "o200k": lambda: split_by(O200K),
    "removed_inverted": lambda: split_by(O200K, "removed", invert=True),
    "possessive": lambda: split_by(POSSESSIVE),
    "merged_with_previous": lambda: split_by(r"[\s。，,.]", "merged_with_previous"),
    "merged_with_next": lambda: split_by(r"[ \n]", "merged_with_next"),
    "digits_first": digits_first,
    "prepended": prepended,
    "prepended_merging_words": prepended,
    "metaspace_always": lambda: metaspace("always"),
    "metaspace_first": lambda: metaspace("first"),
    "metaspace_never": lambda: metaspace("never"),
    "metaspace_whole": lambda: metaspace("always", split=False),
    "unigram": unigram,
    "wordpiece": wordpiece,
    "accents_stripped": accents_stripped,
    "stripped": stripped,
    "words": words,
    "scripts": scripts,
}
# Without a pre-tokenizer merges would go from word to word, as in no tokenizer in use.
BY_WORD = {"prepended", "metaspace_whole"}
RAW_TOKENS = {"prepended", "stripped"}
TRAINERS: dict[str, Callable[..., Any]] = {
    "BPE": trainers.BpeTrainer,
    "Unigram": lambda **options: trainers.UnigramTrainer(unk_token="<unk>", **options),
    "WordPiece": trainers.WordPieceTrainer,
    "WordLevel": trainers.WordLevelTrainer,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TokenizerFile]:
    folder, done = tmp_path_factory.mktemp("tokenizers"), dict[str, TokenizerFile]()

    def get(kind: str) -> TokenizerFile:
        if kind not in done:
            tokenizer = KINDS[kind]()
            train = TRAINERS[type(tokenizer.model).__name__]
            options = {"vocab_size": 500, "show_progress": False}
            special = ["<unk>", "[UNK]"]
            tokenizer.train_from_iterator(
                PROSE.split() if kind in BY_WORD else PROSE.splitlines() * 4,
                train(special_tokens=special, **options),
            )
            # The library panics over white space that is both stripped and part of a token.
            added = (
                ADDED
                if kind not in RAW_TOKENS
                else [token for token in ADDED if not token.normalized]
            )
            tokenizer.add_tokens([token for token in added if not token.special])
            tokenizer.add_special_tokens([token for token in added if token.special])
            tokenizer.save(str(folder / f"{kind}.json"))
            done[kind] = load_tokenizer(folder / f"{kind}.json")
        return done[kind]

    return get


@lru_cache(maxsize=1)
def processor(path: Path) -> SentencePieceProcessor:
    return SentencePieceProcessor(model_file=str(path))


def reference(loaded: TokenizerFile, plain: bool) -> Callable[[str], list[int]]:
    if loaded.kind == "sentencepiece":
        model = processor(loaded.path)
        return lambda text: list(model.encode(text))
    tokenizer = Tokenizer.from_buffer(loaded.data)
    tokenizer.encode_special_tokens = plain
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)


def joined(pieces: Iterable[CutPiece], encode: Callable[[str], list[int]]) -> list[int]:
    return [number for piece in pieces for number in encode(piece.text)[piece.skip :]]


@lru_cache(maxsize=4)
def rules_of(path: Path, plain: bool) -> CutRules:
    return read_rules(load_tokenizer(path), plain=plain)


def everywhere(loaded: TokenizerFile, plain: bool, text: str) -> Iterator[tuple[str, int]]:
    """The text cut at every safe place, as soon as there is one; ids that a piece has to skip."""
    rules = rules_of(loaded.path, plain)
    start, skip = 0, 0
    for at in range(rules.reach, len(text) - rules.reach + 1):
        far = at - start >= rules.again + rules.reach
        if far and rules.safe(text[at - rules.reach : at], text[at : at + rules.reach]):
            yield text[start:at], skip
            start = at - rules.again
            skip = rules.count(text[start:at]) or 0 if rules.again else 0
    yield text[start:], skip


@lru_cache(maxsize=2)
def golden(name: str) -> TokenizerFile:
    return load_tokenizer(GOLDEN / name)


@pytest.fixture(scope="module")
def held(
    trained: Callable[[str], TokenizerFile], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], TokenizerFile]:
    """Trained tokenizers and the golden ones, by name."""

    folder = tmp_path_factory.mktemp("models")

    @cache
    def model_with_bytes() -> TokenizerFile:
        SentencePieceTrainer.train(
            sentence_iterator=iter(PROSE.splitlines() * 4),
            model_prefix=str(folder / "bytes"),
            model_type="bpe",
            vocab_size=520,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            user_defined_symbols=["<sep>", "▁▁", "word", "国。"],
            minloglevel=2,
        )
        return load_tokenizer(folder / "bytes.model")

    def get(kind: str) -> TokenizerFile:
        if kind == "bytes.model":
            return model_with_bytes()
        return golden(kind) if "." in kind else trained(kind)

    return get


ALL = [*KINDS, "sp_bpe.model", "bytes.model"]


@pytest.mark.parametrize("kind", ALL)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_ids_of_the_pieces_are_the_ids_of_the_whole(
    kind: str, held: Callable[[str], TokenizerFile], data: st.DataObject
) -> None:
    loaded, plain, text = held(kind), data.draw(st.booleans()), data.draw(TEXTS)
    encode = reference(loaded, plain)
    pieces = everywhere(loaded, plain, text)
    assert [number for piece, skip in pieces for number in encode(piece)[skip:]] == encode(text)


def pieces_of(cutter: Cutter, text: str) -> list[CutPiece]:
    return list(cutter.cut(text, cutter.limit))


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind != "prepended_merging_words"])
@pytest.mark.parametrize("limit", [50, 200])
def test_prose_is_cut(kind: str, limit: int, held: Callable[[str], TokenizerFile]) -> None:
    loaded = held(kind)
    text = " ".join(PROSE.replace("\n", " ") for _ in range(5))
    encode, cutter = reference(loaded, False), Cutter(loaded, plain=False, limit=limit)
    pieces = pieces_of(cutter, text)
    assert cutter.reason is None
    assert len(pieces) >= len(text) // (2 * limit)
    assert max(len(piece.text) for piece in pieces) <= 2 * limit
    assert all(text.startswith(piece.text, piece.start) for piece in pieces)
    assert joined(pieces, encode) == encode(text)


@pytest.mark.parametrize("kind", ["prepended", "metaspace_whole", "sp_bpe.model", "bytes.model"])
@pytest.mark.parametrize("plain", [False, True])
def test_text_without_spaces_is_cut(
    kind: str, plain: bool, held: Callable[[str], TokenizerFile]
) -> None:
    loaded = held(kind)
    text = "晓觉不眠春，鸟啼闻处处。\n声雨风来夜，少多知落花？\n" * 20
    encode = reference(loaded, plain)
    pieces = pieces_of(Cutter(loaded, plain=plain, limit=50), text)
    assert len(pieces) >= len(text) // 100
    assert pieces[0].skip == 0
    assert all(piece.skip for piece in pieces[1:])
    assert joined(pieces, encode) == encode(text)


@lru_cache(maxsize=1)
def cutter_of(path: Path) -> Cutter:
    return Cutter(load_tokenizer(path), plain=False, limit=40, largest=200)


@pytest.mark.parametrize("kind", ["byte_level", "prepended", "wordpiece", "sp_bpe.model"])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_stream_gives_the_same_ids_however_it_is_fed(
    kind: str, held: Callable[[str], TokenizerFile], data: st.DataObject
) -> None:
    loaded = held(kind)
    sentences = st.sampled_from(["A short line. ", "the end, ", "Стихи и проза; ", "中国。 ", "\n"])
    bits = data.draw(st.lists(st.one_of(sentences, st.sampled_from(FRAGMENTS)), max_size=80))
    text, encode = "".join(bits), reference(loaded, False)
    stream = CutStream(cutter_of(loaded.path))
    try:
        fed = [piece for bit in bits for piece in stream.feed(bit)] + stream.finish()
    except UncuttableError:
        return
    assert joined(fed, encode) == encode(text)
    assert all(0 < len(piece.text) <= 200 for piece in fed)


def test_a_stream_gives_pieces_before_its_end(held: Callable[[str], TokenizerFile]) -> None:
    stream = CutStream(Cutter(held("o200k"), plain=False, limit=100))
    early = [piece for _ in range(20) for piece in stream.feed(PROSE)]
    late = stream.finish()
    assert len(early) > 20
    assert sum(len(piece.text) for piece in late) <= 3 * 100
    assert "".join(piece.text for piece in early + late) == PROSE * 20
    assert stream.finish() == []


@pytest.mark.parametrize("run", ["a", "1", " ", "\n", "中", "e\u0301", "🙂", "<|end|>"])
def test_a_run_without_a_place_is_not_cut(run: str, held: Callable[[str], TokenizerFile]) -> None:
    cutter = Cutter(held("byte_level"), plain=False, limit=50, largest=100)
    with pytest.raises(UncuttableError):
        pieces_of(cutter, run * 101)
    stream = CutStream(cutter)
    with pytest.raises(UncuttableError, match="more than 100 bytes without a place to cut"):
        [stream.feed(run) for _ in range(200)]
    longest = run * (100 // len(run.encode()))
    assert [piece.text for piece in pieces_of(cutter, longest)] == [longest]


def test_a_short_text_is_one_piece(held: Callable[[str], TokenizerFile]) -> None:
    pieces = pieces_of(Cutter(held("byte_level"), plain=False, limit=100), "two words")
    assert [(piece.text, piece.start) for piece in pieces] == [("two words", 0)]


def changed(loaded: TokenizerFile, folder: Path, **parts: Any) -> TokenizerFile:
    document = json.loads(loaded.data)
    model = {**document["model"], **parts.pop("model", {})}
    (folder / "t.json").write_text(json.dumps({**document, "model": model, **parts}))
    return load_tokenizer(folder / "t.json")


SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"model": {"dropout": 0.1}}, "dropout"),
        ({"pre_tokenizer": SPLIT | {"pattern": {"Regex": r"(?<=a)b"}}}, "the group at 0"),
        ({"pre_tokenizer": SPLIT | {"pattern": {"Regex": r"\bw"}}}, r"\\b at 0"),
        ({"pre_tokenizer": {"type": "Punctuation", "behavior": "MergedWithNext"}}, "Punctuation"),
    ],
)
def test_what_cannot_be_proved_is_not_cut(
    parts: dict[str, Any], reason: str, held: Callable[[str], TokenizerFile], tmp_path: Path
) -> None:
    loaded = changed(held("byte_level"), tmp_path, **parts)
    cutter = Cutter(loaded, plain=False, limit=50, largest=100)
    assert cutter.reason is not None
    assert reason.replace("\\\\", "\\") in cutter.reason
    assert len(pieces_of(cutter, PROSE[:90])) == 1
    with pytest.raises(UncuttableError, match="cannot be cut"):
        pieces_of(cutter, PROSE)
    with pytest.raises(UncuttableError, match="cannot be cut"):
        CutStream(cutter).feed(PROSE)


def test_a_unigram_model_is_not_cut(held: Callable[[str], TokenizerFile]) -> None:
    cutter = Cutter(held("sp_uni.model"), plain=False, limit=50)
    assert cutter.reason == "a SentencePiece model that is not BPE"


@pytest.mark.parametrize(
    ("pattern", "x", "y", "crosses"),
    [
        (r" ?\p{L}+|\s+(?!\S)|\s+", "a", " ", False),
        (r" ?\p{L}+|\s+(?!\S)|\s+", " ", "a", True),
        (r"\s+(?!\S)|\s+", "\n", "a", True),
        (r"(?i:'s)|\p{Lu}", "'", "ſ", True),
        (r"(?i:ss)", "ß", "s", True),
        (r"\p{N}{1,3}|x", "1", "2", True),
        (r"\p{N}{1}|x", "1", "2", True),
        (r"[^\r\n[:alpha:]]?x", ".", "x", True),
        (r"[^\r\n[:alpha:]]?x", "a", "x", False),
        (r"a(?:b|c)?d", "a", "d", True),
        (r"a(?:b|c)d", "a", "d", False),
        (r"x(?=y)z|q", "x", "a", True),
        (r"\s+$|a", " ", "b", True),
    ],
)
def test_neighbours_in_a_match(pattern: str, x: str, y: str, crosses: bool) -> None:
    assert regex_pattern(pattern).crosses(x, y) is crosses


@pytest.mark.parametrize(
    ("pattern", "alone"),
    [
        (r" ?\p{L}+", True),
        (r"\p{L}{2,}", False),
        (r"\p{L}\p{M}", False),
        (r"\p{L}(?!\p{M})", False),
        (r"1|\p{L}(?!\p{M})|\p{L}", True),
        (r"a?+\p{L}", False),
    ],
)
def test_characters_always_in_a_match(pattern: str, alone: bool) -> None:
    assert regex_pattern(pattern).alone("a") is alone


@pytest.mark.parametrize(
    "pattern",
    [r"a*", r"(?<!a)b", r"(a)\1", r"^a", r"a\b", r"(?>a)b", r"(a", r"a)", r"[a", r"a{,}", r"(?m)a"],
)
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(UnprovableError):
        regex_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [r"(?=ab)a", r"(?!a)b", r"\R", r"\X", r"a(?!bc)", r"+", "a{2000}"],
)
def test_looks_and_lengths_that_are_refused(pattern: str) -> None:
    with pytest.raises(UnprovableError):
        regex_pattern(pattern)


def test_a_plain_character_joins_with_none_before_it() -> None:
    everything = map(chr, [*range(0xD800), *range(0xE000, 0x20000)])
    seconds = {char for one in everything for char in unicodedata.normalize("NFD", one)[1:]}
    assert len(seconds) > 100
    assert not any(map(is_plain, seconds))
    assert all(map(is_plain, "a Z0.\n中。かéйλ가"))
    assert not any(map(is_plain, "\r\x00\u0301\u200dำ\u1161🇨\u0378"))
