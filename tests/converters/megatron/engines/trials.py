"""Texts that break tokenizers: what a version of an engine has to get right to be proved.

Every code point that may mean something in several contexts, decomposed letters, pairs of ASCII
characters and of white space, the tokenizer's own vocabulary and special tokens with odd
neighbours, mixes of all that, random code points, damaged bytes, long runs. The same tokenizer
always gives the same texts.
"""

import itertools
import random
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from ingot.converters.megatron.tokenizer import TokenizerFile
from ingot.converters.megatron.tokenizer_files import load_huggingface, load_sentencepiece

_RUN_CHARACTERS: Final = 256 << 10
_PACK: Final = 64
_SEED: Final = 20
_MIXES: Final = 8000
_SCRAMBLES: Final = 2000

SPACES: Final = (
    *(" ", "  ", "   ", "        ", "\t", "\n", "\r", "\r\n", "\n\n", "\x0b", "\x0c"),
    *("\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", "\u180e", "\u2000", "\u2003"),
    *("\u2009", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff"),
)
_EMOJI: Final = (
    *("🙂", "👍🏽", "🧑🏿‍🚀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇨🇳", "🇨🇳🇩", "❤️", "1️⃣", "☎️"),
    *("\u200d", "\ufe0f", "🏽"),
)
_WORDS: Final = (
    *("hello", "World", "the", "don't", "DON'T", "I'LL", "we'Ve", "'s", "'S", "'ſ", "'ſſ", "ſ's"),
    *("K'K", "o\u2019clock", "123", "1234567890", "3.14", "1,000", "٣٤٥", "१२", "Ⅷ", "½", "x²"),
    *(
        "我们",
        "漢字",
        "日本語",
        "カタカナ",
        "ｶﾞ",
        "한국어",
        "각",
        "привет",
        "Ελλάς",
        "όσος",
        "مرحبا",
    ),
    *("שלום", "नमस्ते", "ไทย", "ﬁ", "ﬅ", "İ", "ı", "ß", "ẞ", "Å", "e\u0301", "é", "q\u0323\u0307"),
    *("\u0301", "\u0e31", "\u05bf", "ǅ", "ʰ", "ﷺ", "𝒳", "𐍈", "㐀", "𠀀", "\u0378", "\U000e0001"),
    *(
        "\ufffd",
        "\ufffe",
        "\x00",
        "\x07",
        "\x7f",
        "\x9f",
        "_",
        "__init__",
        "camelCase",
        "HTTPServer",
    ),
    *("a/b/c", "//", "/*", "...", "!!!", "?!", "-->", "</p>", "{}", "();", "\\n", "▁", "Ġ", "Ċ"),
    *("##ing", "<0x0A>", "<|", "|>", "[MASK", "]]", "https://a.b/?c=d&e", "a@b.c", "$1", "±", "€"),
)
# Splitting patterns know these whatever their case; U+017F is an s in another case.
_CONTRACTIONS: Final = (
    *("'s", "'S", "'ſ", "'t", "'T", "'re", "'RE", "'Re", "'ve", "'vE", "'m", "'M", "'ll", "'LL"),
    *("'d", "'D", "’s", "'"),
)
_AROUND: Final = ("", "e", "E", "ſ", "ֿ", "́", "1", " ", "中", "!")
# Letters that compose since Unicode 16: libraries of different age disagree about them.
_COMPOSING: Final = (
    *("\U000105d2\u0307", "\U000105da\u0307", "\U00011382\U000113c9", "\U00011384\U000113bb"),
    *("\U0001138b\U000113c2", "\U00011390\U000113c9", "\U000113c2\U000113c2"),
    *("\U000113c2\U000113b8", "\U000113c2\U000113c9", "\U0001611e\U0001611e"),
    *("\U0001611e\U00016129", "\U0001611e\U0001611f", "\U00016129\U0001611f"),
    *("\U0001611e\U00016120", "\U00016121\U0001611f", "\U00016122\U0001611f"),
    *("\U00016121\U00016120", "\U00016d67\U00016d67", "\U00016d63\U00016d67"),
    "\U00016d69\U00016d67",
)
# Ideographs and Hangul.
_UNIFORM: Final = (range(0x3400, 0xA000), range(0xAC00, 0xD7A4), range(0x20000, 0x34000))
# One of each kind that a splitting pattern tells apart.
_KINDS: Final = " \n\r\t'sSaA1!_é中"
# Where characters are; the rest is private or unassigned.
_INHABITED: Final = (range(0x34000), range(0xE0000, 0xE0200))
_RUNS: Final = (
    *(" ", "\n", "\t", "\r\n", " \n", "\u3000", "a", "A", "aA", "ab", "1", "!", "=", "-", "_"),
    *("字", "か", "é", "e\u0301", "\u0301", "🙂", "👨\u200d", "\x00", "'s", "ſ", "\ufffd"),
)
_RUN_LENGTHS: Final = (3, 17, 130, 1025, 8193)


def trial_texts(loaded: TokenizerFile) -> Iterator[pa.LargeStringArray]:
    """The texts for a tokenizer, in runs of less than a MB or so."""
    run: list[str] = []
    size = 0
    for text in _all_texts(loaded):
        run.append(text)
        size += len(text)
        if size > _RUN_CHARACTERS:
            yield pa.array(run, pa.large_string())
            run, size = [], 0
    yield pa.array(run, pa.large_string())


def _all_texts(loaded: TokenizerFile) -> Iterator[str]:
    source = random.Random(_SEED)
    specials = _special_texts(loaded)
    yield from ("", *SPACES, *_WORDS, *_EMOJI)
    yield from _pair_texts()
    yield from _contraction_texts()
    yield from _mixed_texts(source, specials)
    yield from _vocabulary_texts(loaded, source)
    yield from _composed_texts()
    yield from _scrambled_texts(source)
    yield from _repeated_texts(source, specials)
    yield from _code_point_texts()


def _pair_texts() -> Iterator[str]:
    characters = [chr(point) for point in range(128)]
    for first in characters:
        yield "".join(f"x{first}{second}y" for second in characters)
    for space in SPACES:
        yield "".join(f"a{space}{other}b{other}.{space}" for other in SPACES)
    for first, second in itertools.product(_KINDS, repeat=2):
        yield "".join(f"{first}{second}{a}{b}" for a, b in itertools.product(_KINDS, repeat=2))


def _contraction_texts() -> Iterator[str]:
    """Contractions side by side, between letters of either case and what is no letter."""
    for first, second in itertools.product(_CONTRACTIONS, repeat=2):
        for before, behind in itertools.product(_AROUND, repeat=2):
            yield f"{before}{first}{second}{behind}x"


def _special_texts(loaded: TokenizerFile) -> list[str]:
    """Texts of special tokens, whole and not quite."""
    texts = sorted(loaded.special)[:_PACK]
    return [
        variant
        for text in texts or ["<|endoftext|>", "</s>"]
        for variant in (text, text, text[:-1], text[1:], text.swapcase(), text * 2)
    ]


def _mixed_texts(source: random.Random, specials: Sequence[str]) -> Iterator[str]:
    kinds: list[Sequence[str]] = [specials, SPACES, _EMOJI, _WORDS]
    for special in specials:
        for space in SPACES:
            yield f"a{space}{special}{space}b{special}{space}"
    for _ in range(_MIXES):
        chosen = source.choices(kinds, [1, 6, 2, 12], k=source.randint(1, 14))
        yield "".join(source.choice(kind) for kind in chosen)


def _vocabulary_texts(loaded: TokenizerFile, source: random.Random) -> Iterator[str]:
    """The tokens themselves, side by side in any order."""
    if loaded.kind == "sentencepiece":
        model = load_sentencepiece(loaded.data)
        pieces = [str(model.id_to_piece(number)) for number in range(model.get_piece_size())]
        tokens = [piece.replace("▁", " ") for piece in pieces]
    else:
        tokenizer = load_huggingface(loaded.data)
        numbers = sorted(tokenizer.get_vocab(with_added_tokens=False).values())
        tokens = tokenizer.decode_batch([[number] for number in numbers])
    source.shuffle(tokens)
    for first in range(0, len(tokens), 12):
        yield source.choice(("", "", " ", "\n", "'")).join(tokens[first : first + 12])


def _composed_texts() -> Iterator[str]:
    """Letters as the marks they consist of."""
    yield from (f"a{text}b {text}" for text in _COMPOSING)
    points = itertools.chain(range(0xC0, 0xAC00), range(0xAC00, 0xD7A4, 13), range(0xF900, 0x2FA20))
    letters = (chr(point) for point in points if not 0xD800 <= point < 0xE000)
    for letter in letters:
        apart = unicodedata.normalize("NFD", letter)
        if apart != letter:
            yield f"a{apart}b {apart}{apart} {apart[::-1]}"


def _scrambled_texts(source: random.Random) -> Iterator[str]:
    limits = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))
    for _ in range(_SCRAMBLES):
        chosen = source.choices(limits, k=source.randint(1, 30))
        yield "".join(chr(source.randint(*limit)) for limit in chosen)
    for _ in range(_SCRAMBLES):
        yield source.randbytes(source.randint(1, 60)).decode(errors="replace")


def _repeated_texts(source: random.Random, specials: Sequence[str]) -> Iterator[str]:
    for text, length in itertools.product(_RUNS, _RUN_LENGTHS):
        yield text * length
        yield f"a{text * length}b"
    yield from (special * 200 for special in specials[:12])
    for alphabet in ("acgt", "0123456789abcdef", "Aa1+/", "ab \n", "的一是不了", " \t\r\n"):
        yield "".join(source.choices(alphabet, k=_RUN_LENGTHS[-1]))


def _code_point_texts() -> Iterator[str]:
    points = itertools.chain(range(0xD800), range(0xE000, 0x110000))
    inhabited = (point for point in points if any(point in some for some in _INHABITED))
    yield from _pack_texts(_context_texts(chr(point)) for point in inhabited)
    # no version of Unicode tells the others apart
    yield from _pack_texts(map(chr, range(0x34000, 0x110000, 16)))


def _context_texts(character: str) -> str:
    """A code point where patterns may split and marks change places; less where many are alike.

    Text around it shows what a table says: `'s`, `234` and two spaces are tokens of most
    vocabularies, and are cut through where it counts as something else. Combining marks that go
    below (U+0323) and above (U+0301) change places with it if it is a mark of another class.
    """
    point, category = ord(character), unicodedata.category(character)
    if category == "Cn":  # libraries of another age may know it
        return f"'{character}'s.A{character}{character}\u0323E{character}\u0301 "
    if category == "Lo" and any(point in points for points in _UNIFORM):
        return f"a{character}'s {character}"
    return (
        f"a{character}b  {character}'s1{character}234'{character}.A\u0301{character}{character}"
        f"\u0323E{character}\u0301{character}\n"
    )


def _pack_texts(texts: Iterator[str]) -> Iterator[str]:
    while pack := "".join(itertools.islice(texts, _PACK)):
        yield pack
