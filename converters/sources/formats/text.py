"""Text files: encoding, UTF-8 blocks and lines, and what kind of lines they hold."""

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    BrokenRow,
    RowChunk,
    join_parts,
    row_excerpt,
)

BLOCK = 1 << 20
_BOM = codecs.BOM_UTF8
_UTF8 = frozenset({"utf-8", "ascii"})

# Line that is longer than MAX_ROW_BYTES: its text is gone, its place stays.
TOO_LONG = None


def _replace_undecodable(error: UnicodeError) -> tuple[str, int]:
    """Error handler: a lone surrogate for bytes that mean nothing, and on with the next byte."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wide = error.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    return "\udcff", error.end if wide else error.start + 1


codecs.register_error("ingot.undecodable", _replace_undecodable)


def is_utf8(encoding: str) -> bool:
    """Return whether files of this encoding are read without being decoded first."""
    return codecs.lookup(encoding).name in _UTF8


def read_blocks(stream: BinaryIO, where: str, size: int = BLOCK) -> Iterator[bytes]:
    """Yield the bytes of a stream, `size` at a time. Raises SourceError, which names `where`."""
    while True:
        with translate_read_errors(where):
            data = stream.read(size)
        if not data:
            return
        yield data


def read_utf8_blocks(
    stream: BinaryIO, where: str, encoding: str, newline: str = "\n"
) -> Iterator[bytes]:
    """Yield a text file, from the beginning of a line, as blocks of UTF-8.

    Lines end in LF or CR LF. A byte order mark at the beginning of any line is removed: files that
    were concatenated have them inside. Bytes that the encoding does not know are yielded as invalid
    UTF-8.
    """
    plain = read_blocks(stream, where)
    legible = is_utf8(encoding.removesuffix("-sig"))
    parts = plain if legible else _transcode_blocks(plain, where, encoding)
    if newline == "\r":
        parts = (block.replace(b"\r", b"\n") for block in parts)
    return _drop_line_marks(parts)


def skip_lines(parts: Iterator[bytes], count: int) -> Iterator[bytes]:
    """Yield the blocks of a text behind its first lines."""
    for part in parts:
        rest = part
        while count and rest:
            _, ended, rest = rest.partition(b"\n")
            count -= bool(ended)
        if rest:
            yield rest


_MARKS = re.compile(b"\n(?:" + _BOM + b")+")


def _drop_line_marks(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks without byte order marks at the beginning of lines."""
    rest, begins = b"", True
    for part in parts:
        data = rest + part if rest else part
        while begins and data.startswith(_BOM):
            data = data[len(_BOM) :]
        if _BOM in data:
            data = _MARKS.sub(b"\n", data)
        cut = next((size for size in (2, 1) if data.endswith(_BOM[:size])), 0)
        before = data[: len(data) - cut]
        if cut and (before.endswith(b"\n") or (begins and not before)):
            data, rest = before, data[len(before) :]  # the mark may go on in the next block
        else:
            rest = b""
        if data:
            yield data
            begins = data.endswith(b"\n")
    if rest:
        yield rest


def _transcode_blocks(parts: Iterator[bytes], where: str, encoding: str) -> Iterator[bytes]:
    """The parts as UTF-8; an encoding that cannot begin so (no mark of it) is a SourceError."""
    decoder = codecs.getincrementaldecoder(encoding)("ingot.undecodable")
    try:
        for part in parts:
            yield decoder.decode(part).encode("utf-8", "surrogatepass")
        yield decoder.decode(b"", True).encode("utf-8", "surrogatepass")
    except UnicodeError as error:
        hint = "leave `encoding` out, or state the right one"
        raise SourceError(where, f"is not in the encoding {encoding}: {error}", hint) from error


def read_line_blocks(parts: Iterator[bytes]) -> Iterator[bytes | None]:
    """Yield blocks of whole lines without the last LF; `TOO_LONG` for a line past MAX_ROW_BYTES."""
    carry: list[bytes] = []
    size = 0
    skipping = False
    ready: bytes | None = None
    for part in parts:
        end = part.rfind(b"\n")
        if end >= 0:
            if ready is not None:
                yield ready
            if skipping:
                yield TOO_LONG
                begin = part.find(b"\n") + 1
                ready = part[begin:end] if begin <= end else None
            else:
                ready = b"".join([*carry, memoryview(part)[:end]])
            carry, size, skipping = [], 0, False
        last = part[end + 1 :]
        size += len(last)
        skipping = skipping or size > MAX_ROW_BYTES
        carry = [] if skipping else [*carry, last]
    rest = b"".join(carry)
    if ready is not None:
        yield b"\n".join([ready, rest]) if rest else ready
    elif rest:
        yield rest
    if skipping:
        yield TOO_LONG


_NOT_TEXT = "bytes that are no text in the file's encoding"
ZERO_BYTE = "a zero byte, which is no text: the file is damaged there"


def read_text_lines(parts: Iterator[bytes]) -> Iterator[RowChunk]:
    """Yield one row per line that is not blank, without its line end."""
    for block in read_line_blocks(parts):
        if block is None:
            yield RowChunk(values=[BrokenRow(f"line of more than {MAX_ROW_BYTES >> 20} MiB", "")])
            continue
        lines = [line for line in block.split(b"\n") if line.strip()]
        yield RowChunk(values=[decode_text_row(line.removesuffix(b"\r")) for line in lines])


def decode_text_row(data: bytes) -> Json:
    """Return the row of a text; broken where it is none."""
    if b"\0" in data:
        return BrokenRow(ZERO_BYTE, row_excerpt(data))
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError as error:
        return BrokenRow(f"{_NOT_TEXT}, at byte {error.start}", row_excerpt(data))


def read_text_document(parts: Iterator[bytes], stem: str) -> Iterator[RowChunk]:
    """Yield the whole file as one row with the key `stem`; a blank file has no row."""
    whole = join_parts(parts)
    if isinstance(whole, BrokenRow):
        yield RowChunk(values=[whole], keys=[stem])
    elif whole.strip():
        yield RowChunk(values=[decode_text_row(whole)], keys=[stem])


SAMPLE = 64 << 10  # bytes with something beyond ASCII that are judged

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MULTIBYTE_CODECS = ("gb18030", "big5hkscs", "cp932", "euc_jp", "cp949")
_SINGLE_BYTE_CODECS = ("cp1252", "cp1251", "koi8-r", "cp1250", "iso8859-2", "iso8859-7")

# The most frequent characters of Chinese (both scripts) and Japanese running text.
_FREQUENT_HANZI = frozenset(
    "的一是不了在人有我他这中大来上个国到说们为子和你地出道也时年得就那要下以生会自着去之过家学"
    "对可她里后小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头"
    "面公同三已老从动两长知民样现分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向"
    "情部正名定女问力机给等几很业最间新什打便位因重被走电四第门相次东政海口使教西再平真听世气信"
    "北少关并内加化由却代军产入先山五太水万市眼体别处总才场师书比住员九笑性通目华报立马命张活难"
    "这個們來說時會學對過還發當開經頭見長現將與實點種聲話問機給業間東電關內產萬處總場師書員華報"
    "馬張難國為後裡麼從動樣無進氣沒邊聽應"
    "日本年月大人出会中者時分間事的上東京学生行見場合今方気前手思言語"
)
_WORD = re.compile(r"[^\W\d_µ]+")  # the sign of a millionth is no letter of a word
_SIGN_IN_WORD = re.compile(r"(?<=[^\W\d_µ])[²³¹µ±×º´£§©®¶¼¾½](?=[^\W\d_µ])")
# The letters that are half of any text in the two alphabets.
_FREQUENT_LETTERS = frozenset("оеаинтсрвлОЕАИНТСРВЛαοιετσνηυρςάόίέήύώΑΟΙΕΤΣΝΗΥΡ")
_NON_ASCII_RUN = re.compile(r"[^\x00-\x7f]+")
# What an 8-bit encoding may make a word of: signs, digits and blanks are the same in all of them.
_LETTER_RUN = re.compile(rb"[A-Za-z\x80-\xff]+")
_CJK_PUNCTUATION = frozenset("，。、；：？！“”‘’（）《》【】…—·「」『』　～")


@dataclass(frozen=True, slots=True)
class Encoding:
    """The codec's name, and whether it was guessed rather than known."""

    name: str
    guessed: bool = False


def detect_encoding(samples: Sequence[bytes], whole: bool) -> Encoding | None:
    """Return the encoding of a file from pieces of it, the first being its beginning.

    None = not text.
    """
    head = samples[0]
    for mark, name in _BOMS:
        if head.startswith(mark):
            return Encoding(name)
    if b"\0" in head:
        lines = head.split(b"\n")
        texts = [line for line in lines if b"\0" not in line]
        # Where these are UTF-8 and nine of ten, the others are damaged.
        sound = len(texts) >= 0.9 * len(lines) and _decodes(b"\n".join(texts[:-1]), "utf-8")
        if (wide := _detect_utf16(head)) is not None or not sound:
            return wide
        head = b"\n".join(texts)
        samples = [head, *samples[1:]]
    # A text has hardly any control characters (separators, 1 to 3, are none).
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls * 200 > len(head):
        return None
    if _is_utf8(samples, whole):
        return Encoding("utf-8")
    return Encoding(_guess_encoding(_non_ascii_lines(samples)), guessed=True)


def _detect_utf16(head: bytes) -> Encoding | None:
    """UTF-16 without a byte order mark: one half of each pair is often zero, the text sound."""
    data = head[: len(head) & ~1][:SAMPLE]
    for name, high in (("utf-16-le", data[1::2]), ("utf-16-be", data[0::2])):
        # CJK text has few zero bytes (line ends, digits, quotes), and nearly all in the high half.
        low = data[0::2] if name == "utf-16-le" else data[1::2]
        if high.count(0) <= 2 * low.count(0):
            continue
        text = data.decode(name, "replace")
        good = sum(char.isalnum() or char.isspace() or char.isprintable() for char in text)
        if good >= 0.98 * len(text) and text.count("�") <= 1:
            return Encoding(name)
    return None


_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\r\x0b\x0c\x1b\x01\x02\x03")


def _is_utf8(samples: Sequence[bytes], whole: bool) -> bool:
    """Whether the non-ASCII lines are UTF-8, but for a few that may be damaged."""
    good = bad = 0
    for number, sample in enumerate(samples):
        try:
            sample.decode()
            good += not sample.isascii()
            continue
        except UnicodeDecodeError:
            lines = sample.split(b"\n")
        inner = lines if whole and number == 0 else lines[:-1] or [_trim_cut_character(lines[0])]
        verdicts = [_decodes(line, "utf-8") for line in inner if not line.isascii()]
        good += sum(verdicts)
        bad += len(verdicts) - sum(verdicts)
    return bad == 0 or good > 9 * bad


def _trim_cut_character(data: bytes) -> bytes:
    for back in range(1, 4):
        if len(data) >= back and data[-back] >= 0xC0:
            return data[:-back]
    return data


def _non_ascii_lines(samples: Sequence[bytes]) -> bytes:
    """The lines beyond ASCII, up to SAMPLE bytes; of a text without lines its beginning."""
    chosen: list[bytes] = []
    size = 0
    for sample in samples:
        lines = sample.split(b"\n")
        for line in lines[:-1] if len(lines) > 1 else lines:
            if not line.isascii() and size < SAMPLE:
                chosen.append(line[:SAMPLE])
                size += len(line)
    return b"\n".join(chosen) or samples[0][:SAMPLE]


def _guess_encoding(data: bytes) -> str:
    head = data[:_FIRST_BYTES]
    scores = _encoding_scores(head)
    if len(data) > len(head) and not _is_clear(scores, head):
        scores = _encoding_scores(data)
    best = max(scores, key=lambda name: scores[name])
    if scores[best] < _UNSURE_SCORE and _count_non_ascii(data) >= _FEW:
        from charset_normalizer import from_bytes  # knows Greek, Hebrew, Thai, ...

        other = from_bytes(data).best()
        if other is not None and other.encoding not in ("ascii", "utf_8"):
            return other.encoding
    return "latin-1" if best == "cp1252" and not _decodes(data, best) else best


_UNSURE_SCORE = 0.3
_FEW = 8  # bytes beyond ASCII: fewer show no rarer encoding
_FIRST_BYTES = 8 << 10  # bytes that are judged alone where they are clear
_MANY = 400  # bytes beyond ASCII: fewer are never clear
_CLEAR_LEAD = 0.05  # points between the best and the next


def _is_clear(scores: Mapping[str, float], data: bytes) -> bool:
    """Whether one encoding is far ahead of all others, and by many bytes."""
    second, best = sorted(scores.values())[-2:]
    return (
        best >= _UNSURE_SCORE and best - second >= _CLEAR_LEAD and _count_non_ascii(data) >= _MANY
    )


def _decodes(data: bytes, name: str) -> bool:
    try:
        data.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def _encoding_scores(data: bytes) -> dict[str, float]:
    """How much each encoding makes data look like text: points per byte beyond ASCII, up to 1."""
    points = {name: _score_cjk(data.decode(name, "replace")) for name in _MULTIBYTE_CODECS}
    pieces = Counter(piece for piece in _LETTER_RUN.findall(data) if not piece.isascii())
    signs = Counter(data.translate(None, _ASCII))
    points |= {name: _score_letters(pieces, signs, name) for name in _SINGLE_BYTE_CODECS}
    beyond = max(1, _count_non_ascii(data))
    return {name: value / beyond for name, value in points.items()}


_ASCII = bytes(range(128))


def _count_non_ascii(data: bytes) -> int:
    return len(data.translate(None, _ASCII))


def _score_cjk(text: str) -> float:
    """Points of neighbours; one that stands alone may be a sign and a Latin letter (`°C`)."""
    runs = _NON_ASCII_RUN.findall(text)
    alone = Counter(run for run in runs if len(run) == 1)
    among = Counter("".join(run for run in runs if len(run) > 1))
    points = sum(_cjk_points(char) * times for char, times in among.items())
    return points + sum(_lone_points(char) * times for char, times in alone.items())


def _lone_points(char: str) -> float:
    points = _cjk_points(char)
    return 0.3 * points if points > 0 and char > "\u2e7f" else points


@lru_cache(maxsize=1 << 16)
def _cjk_points(char: str) -> float:
    if char in _FREQUENT_HANZI or "\u3040" <= char <= "\u309f":
        return 2.0
    if "\u4e00" <= char <= "\u9fa5":
        # Everyday characters stand in the first level of the national standards.
        simplified, traditional = _encode(char, "gb2312"), _encode(char, "big5")
        return 1.2 if b"" < simplified < b"\xd8" or b"" < traditional < b"\xc9" else -0.4
    if "\uac00" <= char <= "\ud7a3":
        return 1.6 if _encode(char, "euc_kr") else -1.0
    if "\u30a0" <= char <= "\u30ff" or char in _CJK_PUNCTUATION or "\uff01" <= char <= "\uff5e":
        return 1.4
    return -4.0 if char == "�" else -1.0


def _encode(char: str, name: str) -> bytes:
    """The bytes of a character, none where the encoding does not have it."""
    try:
        return char.encode(name)
    except UnicodeEncodeError:
        return b""


def _score_letters(pieces: Mapping[bytes, int], signs: Mapping[int, int], name: str) -> float:
    """Words of one script and sensible case, in points per letter beyond ASCII."""
    points = sum(_piece_points(piece.decode(name, "replace")) * n for piece, n in pieces.items())
    return points + sum(
        _sign_points(bytes([sign]).decode(name, "replace")) * n for sign, n in signs.items()
    )


def _piece_points(text: str) -> float:
    points = sum(map(_word_points, _WORD.findall(text)))
    return points - 1.5 * len(_SIGN_IN_WORD.findall(text))


def _sign_points(char: str) -> float:
    odd = not char.isalpha() or char == "µ"
    fine = char in "“”‘’–—…«»°€£§©®·\xa0´№¿¡º½²³µ±×"
    broken = char == "�" or "\x80" <= char <= "\x9f"
    return fine * 0.5 - (odd - fine) * 0.8 - broken * 4.0


def _word_points(word: str) -> float:
    beyond = [char for char in word if char > "\x7f"]
    if not beyond:
        return 0.0
    other = sum("\u0370" <= char <= "\u04ff" for char in word)
    if other:
        good = other == len(word) and _case_is_sensible(word) and len(word) > 1
        often = sum(char in _FREQUENT_LETTERS for char in word) / len(word)
        return len(beyond) * (0.6 + 0.4 * often if good else -0.3)
    # A Latin word has plain letters around its few marked ones.
    good = _case_is_sensible(word) and len(beyond) * 2 <= len(word) + 1 and len(word) > 1
    lone = word in {"à", "À", "é", "É", "ó", "ô", "y", "è", "ø", "å", "ö", "ä"}
    return len(beyond) * (_accented_points(beyond) if good or lone else -0.5)


def _accented_points(beyond: Sequence[str]) -> float:
    everyday = sum(char in "àâäáãåæçèéêëìíîïñòóôõöøœùúûüýßÀÂÄÁÅÇÈÉÊËÍÎÓÔÖØÙÚÜŒ" for char in beyond)
    return 0.5 + 0.4 * everyday / len(beyond)


def _case_is_sensible(word: str) -> bool:
    return word.islower() or word.isupper() or (word[0].isupper() and word[1:].islower())
