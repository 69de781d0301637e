"""Mail: mailboxes (mbox) and single messages (EML, the files of a Maildir), one message a row.

Headers are decoded by the standard library. The parts of a message are cut here, in time and memory
that hostile boundaries do not multiply; `policy.default` raises on many headers of real mail.
"""

import binascii
import codecs
import email.errors
import email.header
import email.utils
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesHeaderParser
from typing import BinaryIO, Final

from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    RowChunk,
    chunk_sized_rows,
    row_excerpt,
)
from ingot.converters.sources.formats.text import detect_encoding, read_blocks
from ingot.converters.sources.storage.listing import Entry

MAX_MESSAGE: Final = 32 << 20
_MAX_HEADERS: Final = 256 << 10
_MAX_STRUCTURE: Final = 16 << 10  # of a header that says what a part is
_MAX_HEADER_LINE: Final = 4000  # a longer line is not decoded: it would take its square
_MAX_PARTS: Final = 1000
_MAX_NESTING: Final = 20
_MARGIN: Final = 1 << 10  # more than a line that parts messages, and the header behind it
_FIELDS: Final = (
    *("message_id", "in_reply_to", "references", "thread", "date", "from", "to", "cc"),
    *("subject", "text", "attachments"),
)
_FIRST = re.compile(rb"From \S[^\n]{1,400}\n(?=[!-9;-~]{1,80}:)")
_NEXT = re.compile(rb"\n\r?\n(From \S[^\n]{1,400})\n(?=[!-9;-~]{1,80}:)")
_YEAR = re.compile(rb"\d{4}")
_QUOTED = re.compile(rb"^>(?=>{0,99}From )", re.MULTILINE)
_BLANK = re.compile(rb"\r?\n\r?\n")
_HEADER_LINE = re.compile(rb"[!-9;-~]{1,80}:[^\n]{0,4000}|[ \t][^\n]{0,4000}")
# What mail has and a text with a few lines like headers has not.
_OF_MAIL = re.compile(
    rb"^(?:message-id|received|return-path|mime-version|delivered-to):", re.I | re.M
)
_SENDER = re.compile(rb"^(?:from|sender|return-path):", re.I | re.M)
_ID = re.compile(r"<[^<>\s]{1,998}>")
_TAG = re.compile(r"(<[^<>]*>)")
_TAG_NAME = re.compile(r"</?([a-z]{1,10}\d?)(?![a-z0-9])", re.I)
_UNSHOWN: Final = ("script", "style", "head", "title")
_LINE_TAG = re.compile(r"br|p|div|tr|li|h[1-6]|table|ul|ol|blockquote")
_SPACES = re.compile(r"\s++")
_BLANK_LINES = re.compile(r"\n[ \t\r]*+(?:\n[ \t\r]*+)++")
# Codecs of Python that are no encodings of a text, or take the square of its length.
_NO_ENCODINGS: Final = ("punycode", "idna", "unicode-escape", "raw-unicode-escape", "utf-7")
# As browsers and mail programs read these names.
_LABELS: Final = {
    **{"us-ascii": "utf-8", "ascii": "utf-8", "iso-8859-1": "cp1252", "latin-1": "cp1252"},
    **{"iso8859-1": "cp1252", "latin1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"},
    **{"shift_jis": "cp932", "shift-jis": "cp932", "euc-kr": "cp949", "ks_c_5601-1987": "cp949"},
}
# What the library raises on hostile headers.
_HOSTILE: Final = (
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError),
    email.errors.MessageError,
)


def decode_text(data: bytes, label: str | None) -> tuple[str, str]:
    """Return a text and the encoding it is read in: the stated one, else the most likely one.

    Bytes that the encoding does not know become U+FFFD.
    """
    name = (label or "").strip().lower()
    name = _LABELS.get(name, name)
    try:
        codec = codecs.lookup(name).name if name else ""
        if codec and codec not in _NO_ENCODINGS:
            return data.decode(codec), codec
    except (LookupError, ValueError):
        codec = ""
    guess = detect_encoding([data[: 64 << 10]], len(data) <= 64 << 10)
    codec = guess.name if guess else "utf-8"
    return data.decode(codec, "replace"), codec


def mbox_facts(_: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of a mailbox."""
    found = _FIRST.match(seen.head)
    if spec.format not in (None, "mbox") or not (found and _YEAR.search(found[0])):
        return None
    return _mail_facts("mbox", seen)


def eml_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of a file that is one message."""
    stated = spec.format == "eml" or entry.name.lower().endswith(".eml")
    if spec.format not in (None, "eml"):
        return None
    head = _BLANK.split(seen.head.lstrip(), maxsplit=1)[0]
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")]
    if not head or not all(map(_HEADER_LINE.fullmatch, lines)):
        return None
    if stated or (_OF_MAIL.search(head) and _SENDER.search(head)):
        return _mail_facts("eml", seen)
    return None


def _mail_facts(form: str, seen: FilePeek) -> FileFacts:
    shape = frozenset(_FIELDS)
    return FileFacts(format=form, compression=seen.compression, shape=shape)


def read_mbox(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """The messages of a mailbox. Raises SourceError."""
    return chunk_sized_rows(
        (_too_large(), 0) if data is None else (message_row(_QUOTED.sub(b"", data)), len(data))
        for data in _cut_messages(read_blocks(stream, str(file.place)))
    )


def read_eml(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """The one message of a file. Raises SourceError."""
    data = bytearray()
    for block in read_blocks(stream, str(file.place)):
        data += block
        if len(data) > MAX_MESSAGE:
            break
    large = len(data) > MAX_MESSAGE
    yield RowChunk(values=[_too_large() if large else message_row(bytes(data.lstrip()))])


def _too_large() -> BrokenRow:
    return BrokenRow(f"a message of more than {MAX_MESSAGE >> 20} MiB", "")


def _cut_messages(blocks: Iterator[bytes]) -> Iterator[bytes | None]:
    """The messages of a mailbox without the lines that part them; None for one that is too large.

    A line parts messages if it begins with `From `, has a year, and stands between a blank line and
    a header; others belong to the text, though programs ought to have quoted them.
    """
    held, searched, large = bytearray(b"\n\n"), 0, False
    more = True
    while more:
        block = next(blocks, b"")
        held += block
        more = bool(block)
        begin = 0
        for found in _NEXT.finditer(held, searched):
            if (more and found.end() + _MARGIN > len(held)) or not _YEAR.search(found[1]):
                continue
            if found.start():
                yield None if large else bytes(held[begin : found.start() + 1])
            begin, large = found.end(), False
        searched = max(0, len(held) - begin - 2 * _MARGIN)
        del held[:begin]
        if len(held) > MAX_MESSAGE:
            large = True
            del held[: -2 * _MARGIN]
            searched = 0
    yield None if large else bytes(held)


@dataclass(slots=True)
class _Parts:
    """What the parts of a message hold."""

    plain: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    attachments: list[Json] = field(default_factory=list)
    count: int = 0


def message_row(data: bytes) -> Json:
    """Return a message as a row, or what is wrong with it."""
    parts = _Parts()
    try:
        headers = _collect_parts(data, parts, 0)
    except _BadMessageError as error:
        return BrokenRow(str(error), row_excerpt(data))
    text = "\n".join(parts.plain) if parts.plain else "\n".join(map(strip_tags, parts.pages))
    own = _ids(headers, "message-id")[:1]
    above = _ids(headers, "in-reply-to")[:1]
    references = _ids(headers, "references")
    date = _header(headers, "date")
    return {
        "message_id": own[0] if own else None,
        "in_reply_to": above[0] if above else None,
        "references": references,
        "thread": next(iter((*references, *above, *own)), None),
        "date": date and _iso_date(date),
        "from": _header(headers, "from"),
        "to": _header(headers, "to"),
        "cc": _header(headers, "cc"),
        "subject": _header(headers, "subject"),
        "text": text.replace("\r\n", "\n").strip("\n") or None,
        "attachments": parts.attachments,
    }


class _BadMessageError(ValueError):
    """A message that cannot be a row; the text says why."""


def _collect_parts(data: bytes, parts: _Parts, depth: int) -> Message:
    """Collect the texts and attachments of a message or part; gives its headers."""
    parts.count += 1
    if parts.count > _MAX_PARTS or depth > _MAX_NESTING:
        limits = f"{_MAX_PARTS} parts, or {_MAX_NESTING} in one another"
        raise _BadMessageError(f"a message of more than {limits}")
    if data.startswith((b"\n", b"\r\n")):
        head, body = b"", data.lstrip(b"\r").removeprefix(b"\n")
    else:
        head, *rest = _BLANK.split(data, maxsplit=1)
        body = rest[0] if rest else b""
    if len(head) > _MAX_HEADERS:
        raise _BadMessageError(f"headers of more than {_MAX_HEADERS >> 10} KiB")
    headers = BytesHeaderParser().parsebytes(head)
    structure = [text for key, text in headers.raw_items() if key.lower().startswith("content-")]
    if any(len(text) > _MAX_STRUCTURE for text in structure):
        raise _BadMessageError(f"a header of its content of more than {_MAX_STRUCTURE >> 10} KiB")
    kind = headers.get_content_type()
    boundary = _try(headers.get_boundary)
    if kind.startswith("multipart/") and boundary and len(boundary) <= _MARGIN:
        for piece in _split_parts(body, boundary.encode("utf-8", "surrogateescape")):
            _collect_parts(piece, parts, depth + 1)
        return headers
    name = _try(headers.get_filename)
    attached = name or headers.get_content_disposition() == "attachment"
    content = _decode_body(body, _raw_header(headers, "content-transfer-encoding"))
    if attached or kind not in ("text/plain", "text/html"):
        size = len(body if content is None else content)
        found = {"name": name and _clean(name), "type": _clean(kind), "size": size}
        parts.attachments.append(found)
    elif content is None:
        raise _BadMessageError("a text that says to be base64 and is not")
    else:
        text, _ = decode_text(content, _try(headers.get_content_charset))
        (parts.plain if kind == "text/plain" else parts.pages).append(text)
    return headers


def _split_parts(body: bytes, boundary: bytes) -> Iterator[bytes]:
    """The parts between the lines of a boundary, without what stands before and behind them."""
    part: list[bytes] | None = None
    for number, piece in enumerate((b"\n" + body).split(b"\n--" + boundary)):
        line, _, rest = piece.partition(b"\n")
        if number and line.strip() not in (b"", b"--"):  # another boundary that begins alike
            part = [] if part is None else [*part, b"\n--", boundary, piece]
            continue
        if part is not None:
            yield b"".join(part).removesuffix(b"\r")
        if number and line.strip() == b"--":
            return
        part = [rest] if number else None
    if part is not None:
        yield b"".join(part)


def _decode_body(body: bytes, encoding: str) -> bytes | None:
    """Return a body as it was before it was encoded; None where it is not encoded so."""
    encoding = encoding.strip().lower()
    try:
        if encoding == "base64":
            return binascii.a2b_base64(body)
        return binascii.a2b_qp(body) if encoding == "quoted-printable" else body
    except binascii.Error:
        return None


def _try(read: Callable[[], str | None]) -> str | None:
    try:
        return read()
    except _HOSTILE:
        return None


def _raw_header(headers: Message, name: str) -> str:
    """Return the first header of a name as it is written, "" where there is none."""
    return next((str(text) for key, text in headers.raw_items() if key.lower() == name), "")


def _header(headers: Message, name: str) -> str | None:
    """Return a header as text, its encoded words decoded; None where there is none."""
    text = _raw_header(headers, name)
    if max(map(len, text.splitlines()), default=0) <= _MAX_HEADER_LINE and "=?" in text:
        decoded = _try(lambda: "".join(map(_decode_word, email.header.decode_header(text))))
        text = text if decoded is None else decoded
    return " ".join(_clean(text).split()) or None


def _decode_word(word: tuple[bytes | str, str | None]) -> str:
    data, charset = word
    return data if isinstance(data, str) else decode_text(data, charset)[0]


def _clean(text: str) -> str:
    """Return a text of the library, whose bytes beyond ASCII are surrogates, as text."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return decode_text(data, "utf-8")[0]


def _ids(headers: Message, name: str) -> list[str]:
    return list(dict.fromkeys(_ID.findall(_clean(_raw_header(headers, name)))))


def _iso_date(text: str) -> str:
    """Return a date in ISO 8601; the text itself where it is none."""
    return _try(lambda: email.utils.parsedate_to_datetime(text).isoformat()) or text


def strip_tags(page: str) -> str:
    """Return the text of a page of HTML, without its tags, scripts and styles."""
    out: list[str] = []
    hidden = ""
    for piece in _TAG.split(page):
        found = _TAG_NAME.match(piece) if piece[:1] == "<" else None
        name = found[1].lower() if found else ""
        if hidden:
            hidden = "" if name == hidden and piece[1:2] == "/" else hidden
        elif name in _UNSHOWN:
            hidden = name if piece[1:2] != "/" else ""
        elif _LINE_TAG.fullmatch(name):
            out.append("\n")
        elif not found and not piece.startswith("<!"):
            out.append(_SPACES.sub(" ", piece))
    return html.unescape(_BLANK_LINES.sub("\n\n", "".join(out))).strip()
