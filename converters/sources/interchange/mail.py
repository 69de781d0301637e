"""Mail: mailboxes (mbox) and single messages (EML, the files of a Maildir), one message a row.

Headers are decoded by the standard library. The parts of a message are cut here, in time and memory
that hostile boundaries do not multiply; `policy.default` raises on many headers of real mail.
"""

import binascii
import email.header
import email.utils
import html
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.errors import MessageError
from email.message import Message
from email.parser import BytesHeaderParser
from itertools import islice
from typing import BinaryIO, Final, TypeVar

from ingot.converters.rows import Json
from ingot.converters.sources.documents.html_pages import text_codec
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    RowChunk,
    chunk_sized_rows,
    join_parts,
    row_excerpt,
)
from ingot.converters.sources.formats.text import detect_encoding, read_blocks, read_line_blocks
from ingot.converters.sources.storage.listing import Entry

MAX_MESSAGE: Final = 32 << 20
_MAX_HEADERS: Final = 256 << 10
_MAX_STRUCTURE: Final = 16 << 10  # of a header that says what a part is
_MAX_HEADER_LINE: Final = 4000  # a longer line is not decoded: it would take its square
_MAX_PARTS: Final = 1000
_MAX_NESTING: Final = 20
_SHAPE: Final = frozenset(("message_id", "thread", "from", "subject", "text"))
_FROM = re.compile(rb"From \S[^\n]{0,400}?\d{4}")
_HEADER = re.compile(rb"[!-9;-~]{1,80}:")
_FIRST = re.compile(rb"%b[^\n]*+\n%b" % (_FROM.pattern, _HEADER.pattern))
_HEADER_LINE = re.compile(rb"[!-9;-~]{1,80}:[^\n]{0,4000}|[ \t][^\n]{0,4000}")
_QUOTED = re.compile(rb"^>(?=>{0,99}From )", re.MULTILINE)
_BLANK = re.compile(rb"(?:\A|\r?\n)\r?\n")
# What mail has and a text with a few lines like headers has not.
_OF_MAIL: Final = {b"message-id", b"received", b"return-path", b"mime-version", b"delivered-to"}
_SENDER: Final = {b"from", b"sender", b"return-path"}
_ID = re.compile(r"<[^<>\s]{1,998}>")
_UNSHOWN = re.compile(
    r"<(script|style|head|title)(?![a-z0-9])[^<>]*+>.*?(?=</\1|\Z)", re.I | re.DOTALL
)
_LINE_TAG = re.compile(
    r"</?(?:br|p|div|tr|li|h[1-6]|table|ul|ol|blockquote)(?![a-z0-9])[^<>]*+>", re.I
)
_TAG = re.compile(r"<[a-z/!?][^<>]*+>", re.I)
_SPACES = re.compile(r"\s++")
_BLANK_LINES = re.compile(r"\n *+(?:\n *+)++")
_DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "base64": binascii.a2b_base64,
    "quoted-printable": binascii.a2b_qp,
}
# What the library raises on hostile headers.
_HOSTILE: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError, MessageError)
_TOO_MANY: Final = f"a message of more than {_MAX_PARTS} parts, or {_MAX_NESTING} in one another"
T = TypeVar("T")


def decode_text(data: bytes, label: str | None) -> tuple[str, str]:
    """Return a text and the encoding it is read in: the stated one, else the most likely one.

    Bytes that the encoding does not know become U+FFFD.
    """
    if codec := text_codec(label or ""):
        with suppress(ValueError):
            return data.decode(codec), codec
    guess = detect_encoding([data[: 64 << 10]], len(data) <= 64 << 10)
    codec = guess.name if guess else "utf-8"
    return data.decode(codec, "replace"), codec


def mbox_facts(_: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of a mailbox."""
    if spec.format not in (None, "mbox") or not _FIRST.match(seen.head):
        return None
    return FileFacts(format="mbox", compression=seen.compression, shape=_SHAPE)


def eml_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of a file that is one message."""
    if spec.format not in (None, "eml"):
        return None
    lines = _BLANK.split(seen.head.lstrip(), maxsplit=1)[0].split(b"\n")
    if not all(_HEADER_LINE.fullmatch(line.rstrip(b"\r")) for line in lines):
        return None
    names = {line.partition(b":")[0].lower() for line in lines}
    stated = spec.format or entry.name.lower().endswith(".eml")
    if not stated and not (names & _OF_MAIL and names & _SENDER):
        return None
    return FileFacts(format="eml", compression=seen.compression, shape=_SHAPE)


def read_mbox(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """Return the messages of a mailbox. Raises SourceError."""
    blocks = read_line_blocks(read_blocks(stream, str(file.place)))
    too_large = BrokenRow(f"a message of more than {MAX_MESSAGE >> 20} MiB", "")
    return chunk_sized_rows(
        (too_large, 0)
        if size > MAX_MESSAGE
        else (message_row(_QUOTED.sub(b"", b"\n".join(lines))), size)
        for lines, size in _cut_messages(blocks)
    )


def read_eml(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """Yield the one message of a file. Raises SourceError."""
    data = join_parts(read_blocks(stream, str(file.place)), MAX_MESSAGE)
    yield RowChunk(values=[message_row(data.lstrip()) if isinstance(data, bytes) else data])


def _cut_messages(blocks: Iterator[bytes | None]) -> Iterator[tuple[list[bytes], int]]:
    """The lines and the size of each message of a mailbox; of one too large only the first lines.

    A line parts messages if it begins with `From `, has a year, and stands between a blank line and
    a header; others belong to the text, though programs ought to have quoted them.
    """
    lines: list[bytes] = []
    size, parting, after_blank = 0, b"", True
    for block in blocks:
        size += MAX_MESSAGE + 1 if block is None else 0  # a line that is too long itself
        for line in block.split(b"\n") if block is not None else ():
            if parting and _HEADER.match(line):
                if size:
                    yield lines, size
                lines, size = [], 0
            elif parting:
                lines.append(parting)
            parting = line if after_blank and _FROM.match(line) else b""
            after_blank = line in (b"", b"\r")
            size += len(line) + 1 if not parting else 0
            if not parting and size <= MAX_MESSAGE:
                lines.append(line)
    yield [*lines, parting], size


class BadContentError(ValueError):
    """A message or payload that cannot be a row; the text says why."""


def message_row(data: bytes) -> Json:
    """Return a message as a row, or what is wrong with it."""
    texts: dict[str, list[str]] = {"text/plain": [], "text/html": []}
    attachments: list[Json] = []
    try:
        parts = list(islice(_walk_parts(data, 0), _MAX_PARTS + 1))
        if len(parts) > _MAX_PARTS:
            raise BadContentError(_TOO_MANY)
        for part, body in parts:
            if body is not None:
                _add_part(part, body, texts, attachments)
    except BadContentError as error:
        return BrokenRow(str(error), row_excerpt(data))
    headers = parts[0][0]
    text = "\n".join(texts["text/plain"] or map(strip_tags, texts["text/html"]))
    message_id, above, references = (
        list(dict.fromkeys(_ID.findall(_clean(_raw_header(headers, name)))))
        for name in ("message-id", "in-reply-to", "references")
    )
    date = _header(headers, "date") or ""
    return {
        "message_id": next(iter(message_id), None),
        "in_reply_to": next(iter(above), None),
        "references": references,
        "thread": next(iter((*references, *above[:1], *message_id)), None),
        "date": _try(lambda: email.utils.parsedate_to_datetime(date).isoformat()) or date or None,
        **{name: _header(headers, name) for name in ("from", "to", "cc", "subject")},
        "text": text.replace("\r\n", "\n").strip("\r\n") or None,
        "attachments": attachments,
    }


def _walk_parts(data: bytes, depth: int) -> Iterator[tuple[Message, bytes | None]]:
    """The headers and body of a message and of its parts; the body of one with parts is None."""
    if depth > _MAX_NESTING:
        raise BadContentError(_TOO_MANY)
    head, body, *_ = [*_BLANK.split(data, maxsplit=1), b""]
    if len(head) > _MAX_HEADERS:
        raise BadContentError(f"headers of more than {_MAX_HEADERS >> 10} KiB")
    headers = BytesHeaderParser().parsebytes(head)
    structure = [text for key, text in headers.raw_items() if key.lower().startswith("content-")]
    if any(len(text) > _MAX_STRUCTURE for text in structure):
        raise BadContentError(f"a header of its content of more than {_MAX_STRUCTURE >> 10} KiB")
    boundary = _try(headers.get_boundary)
    if not boundary or headers.get_content_maintype() != "multipart":
        yield headers, body
        return
    yield headers, None
    mark = re.escape(boundary.encode("utf-8", "surrogateescape"))
    _, *pieces = re.split(rb"(?m:^)--" + mark + rb"(--)?[ \t\r]*+(?:\n|\Z)", body)
    for end, part in zip(pieces[::2], pieces[1::2], strict=True):
        if end:
            return
        yield from _walk_parts(part.removesuffix(b"\n").removesuffix(b"\r"), depth + 1)


def _add_part(
    headers: Message, body: bytes, texts: dict[str, list[str]], attachments: list[Json]
) -> None:
    kind, name = headers.get_content_type(), _try(headers.get_filename)
    encoding = _raw_header(headers, "content-transfer-encoding").strip().lower()
    content = _try(lambda: _DECODERS.get(encoding, bytes)(body))
    if name or headers.get_content_disposition() == "attachment" or kind not in texts:
        size = len(body if content is None else content)
        attachments.append({"name": name and _clean(name), "type": _clean(kind), "size": size})
    elif content is None:
        raise BadContentError("a text that says to be base64 and is not")
    else:
        texts[kind].append(decode_text(content, _try(headers.get_content_charset))[0])


def _try(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except _HOSTILE:
        return None


def _raw_header(headers: Message, name: str) -> str:
    """Return the first header of a name as it is written, "" if there is none."""
    return next((str(text) for key, text in headers.raw_items() if key.lower() == name), "")


def _header(headers: Message, name: str) -> str | None:
    """Return a header as text, its encoded words decoded; None if there is none."""
    text = _raw_header(headers, name)
    if "=?" in text and max(map(len, text.splitlines())) <= _MAX_HEADER_LINE:
        words = _try(lambda: email.header.decode_header(text)) or [(text, None)]
        text = "".join(
            word if isinstance(word, str) else decode_text(word, charset)[0]
            for word, charset in words
        )
    return " ".join(_clean(text).split()) or None


def _clean(text: str) -> str:
    """Return a text of the library, whose bytes beyond ASCII are surrogates, as text."""
    data = _try(lambda: text.encode("utf-8", "surrogateescape")) or text.encode("utf-8", "replace")
    return decode_text(data, "utf-8")[0]


def strip_tags(page: str) -> str:
    """Return the text of a page of HTML, without its tags, scripts and styles."""
    text = _SPACES.sub(" ", _UNSHOWN.sub("", page))
    text = _TAG.sub("", _LINE_TAG.sub("\n", text))
    return html.unescape(_BLANK_LINES.sub("\n\n", text)).strip()
