"""Web archives (WARC, WET): the responses, resources and conversions of a crawl, one a row.

Records are cut here rather than by a package: of a file that is cut off warcio gives what is left
of the last record without an error, and after a length that is too short it continues.
"""

import base64
import hashlib
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from typing import BinaryIO, Final, cast

import zstandard

from ingot.converters.errors import (
    SourceError,
    missing_package,
    translate_native_errors,
    translate_read_errors,
    truncated_error,
)
from ingot.converters.progress import usable_cores
from ingot.converters.rows import Json
from ingot.converters.sources.documents import html_pages
from ingot.converters.sources.documents.kinds import PAGE
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    RowChunk,
    chunk_sized_rows,
    row_excerpt,
)
from ingot.converters.sources.interchange.mail import BadContentError, decode_text
from ingot.converters.sources.storage.listing import Entry

MAX_RECORD: Final = 32 << 20  # bytes of a record, and of what it becomes when it is decompressed
_AT_ONCE: Final = 4  # pages whose main text is looked for
_ROWS: Final = ("response", "resource", "conversion")
_MAX_HEADERS: Final = 1 << 20
_MAX_LINE: Final = 64 << 10
_TYPE = re.compile(rb"^warc-type:[ \t]{0,99}(\w{1,40})", re.IGNORECASE | re.MULTILINE)
_FOLD = re.compile(rb"\r?\n[ \t]+")
_CHARSET = re.compile(r"charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_CHUNK = re.compile(rb"(?:\r?\n)?([0-9a-fA-F]{1,8})[ \t]{0,99}(?:;[^\n]{0,999})?\r?\n")
_TEXT_TYPE = re.compile(r"text/.*|application/(?:.*[+/])?(?:json|xml|javascript|x-ndjson)")
_HTML_TYPES: Final = ("text/html", "application/xhtml+xml")
_GZIP: Final = b"\x1f\x8b"
_UNPACKED: Final = ("", "identity", "none", "binary", "8bit", "utf-8")


def warc_facts(_: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of a web archive; pages and texts are of two shapes."""
    if spec.format not in (None, "warc") or not seen.head.startswith(b"WARC/"):
        return None
    types = [kind.decode().lower() for kind in _TYPE.findall(seen.head)]
    kind = next((kind for kind in types if kind in _ROWS), "response")
    fields = ("text", "language") if kind == "conversion" else ("title", "status", "content_type")
    return FileFacts(format="warc", compression=seen.compression, shape=frozenset(fields))


def read_warc(file: SourceFile, spec: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """Return the rows of a web archive. Raises SourceError."""
    where = str(file.place)
    if spec.html == html_pages.RAW:
        return chunk_sized_rows(_rows(stream, where))
    return chunk_sized_rows(
        _rows(stream, where), lambda rows: RowChunk(values=find_main_texts(where, rows))
    )


def find_main_texts(where: str, rows: Iterable[Json]) -> list[Json]:
    """Return rows with the main text of each page in place of the page. Raises SourceError."""
    # Each waits for a process that reads its page.
    with ThreadPoolExecutor(min(_AT_ONCE, usable_cores())) as threads:
        return list(threads.map(partial(_main_text_row, where), rows))


def _main_text_row(where: str, row: Json) -> Json:
    if type(row) is BrokenRow:
        return row
    page = row.pop("html")
    if page is None:
        return {**row, "title": None}
    html_pages.check_installed(where)
    content = html_pages.read_page(page, where, raw=False)
    if isinstance(content, BrokenRow):
        return replace(content, found=row["url"] or "")
    language = row["language"] or content["language"]
    return {**row, "language": language, "title": content["title"], "text": content["text"] or None}


def _rows(stream: BinaryIO, where: str) -> Iterator[tuple[Json, int]]:
    with io.BufferedReader(cast(io.RawIOBase, stream), 1 << 18) as source:
        for number in count():
            with translate_read_errors(where):
                headers = _read_headers(source, where, number)
                if headers is None:
                    return
                content = _read_content(source, headers, where, number)
            if headers.get("warc-type", "").lower() in _ROWS:
                yield _record_row(headers, content, where), len(content)


def _read_headers(source: BinaryIO, where: str, number: int) -> dict[str, str] | None:
    """The headers of the next record, None at the end. Raises SourceError."""
    line, blank = source.readline(_MAX_LINE), not number
    while line and not line.strip(b"\r\n"):
        line, blank = source.readline(_MAX_LINE), True
    if not line:
        return None
    if not (blank and line.startswith(b"WARC/")):
        problem = f"no record begins where record {number} should: {row_excerpt(line)[:40]!r}"
        hint = "the Content-Length before is wrong, or the file is damaged: fetch it again"
        raise SourceError(where, problem, hint)
    head = bytearray()
    while (line := source.readline(_MAX_LINE)).strip(b"\r\n"):
        head += line
        if len(head) > _MAX_HEADERS:
            raise SourceError(where, f"record {number} has headers of more than 1 MiB")
    if not line:
        raise truncated_error(where, f"it ends inside the headers of record {number}")
    return _parse_headers(bytes(head))


def _parse_headers(head: bytes) -> dict[str, str]:
    """The first value of each header by its name in small letters."""
    headers: dict[str, str] = {}
    for line in decode_text(_FOLD.sub(b" ", head), "utf-8")[0].split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name.strip().lower(), value.strip())
    return headers


def _read_content(source: BinaryIO, headers: dict[str, str], where: str, number: int) -> bytes:
    """The content of a record, of one too large its beginning. Raises SourceError."""
    text = headers.get("content-length", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        problem = f"record {number} has no Content-Length that is a number: {text[:40]!r}"
        raise SourceError(where, problem, "fetch the file again")
    content = source.read(min(int(text), MAX_RECORD + 1))
    left = int(text) - len(content)
    while left and (passed := source.read(min(left, 1 << 20))):
        left -= len(passed)
    if left:
        raise truncated_error(where, f"it ends inside record {number}")
    return content


def _record_row(headers: dict[str, str], content: bytes, where: str) -> Json:
    url = headers.get("warc-target-uri", "").strip("<>")
    digest = headers.get("warc-block-digest", "")
    status, kind, sent = None, headers.get("content-type", ""), dict[str, str]()
    try:
        if len(content) > MAX_RECORD:
            raise BadContentError(f"a record of more than {MAX_RECORD >> 20} MiB")
        if headers.get("warc-segment-number"):
            raise BadContentError("a record in several segments, which are not joined")
        if not _has_digest(content, digest):
            raise BadContentError(f"its content has not the digest {digest[:80]}")
        if content.startswith(b"HTTP/") and "application/http" in kind.lower():
            status, sent, content = _read_response(content, where)
            kind = sent.get("content-type", "")
    except BadContentError as error:
        return BrokenRow(str(error), url)
    identified = headers.get("warc-identified-payload-type")
    named = kind.partition(";")[0].strip().lower() or None
    return {
        "url": url or None,
        "date": headers.get("warc-date"),
        "type": headers["warc-type"].lower(),
        "id": headers.get("warc-record-id", "").strip("<>") or None,
        "status": status,
        "content_type": named or identified,
        "language": headers.get("warc-identified-content-language") or sent.get("content-language"),
        "size": len(content),
        "truncated": headers.get("warc-truncated"),
        **_text_fields(content, kind, identified or named or "", headers["warc-type"].lower()),
    }


def _text_fields(content: bytes, stated: str, kind: str, record: str) -> dict[str, Json]:
    """The page or text of a payload of a kind, and its encoding; of others nothing."""
    page = kind in _HTML_TYPES or (not kind and PAGE.match(content))
    if not content or not (page or _TEXT_TYPE.fullmatch(kind)):
        return {"charset": None, "html": None, "text": None}
    label = "utf-8" if record == "conversion" else None
    label = html_pages.declared_encoding(content) if page else label
    match = _CHARSET.search(stated)
    text, charset = decode_text(content, match[1] if match else label)
    return {"charset": charset, "html": text if page else None, "text": None if page else text}


def _has_digest(content: bytes, digest: str) -> bool:
    """Whether content has a digest, in hex or base32; true of an algorithm that is not known."""
    name, _, value = digest.lower().replace("-", "").partition(":")
    if name not in ("md5", "sha1", "sha256", "sha384", "sha512"):
        return True
    actual = hashlib.new(name, content, usedforsecurity=False).digest()
    coded = base64.b32encode(actual).decode().lower()
    return value.strip().rstrip("=") in (actual.hex(), coded.rstrip("="))


def _read_response(content: bytes, where: str) -> tuple[int | None, dict[str, str], bytes]:
    """The status, headers and body of an HTTP response, the body without chunks and compression."""
    head, body, *_ = [*re.split(rb"\r?\n\r?\n", content, maxsplit=1), b""]
    first, _, lines = head.partition(b"\n")
    status = re.match(rb"\S+\s+(\d{3})(?!\S)", first)
    sent = _parse_headers(lines)
    if "chunked" in sent.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    for coding in reversed(sent.get("content-encoding", "").lower().split(",")[:4]):
        body = _unpack(body, coding.strip(), where)
    return int(status[1]) if status else None, sent, body


def _join_chunks(body: bytes) -> bytes:
    """The data of chunks; many programs write them joined and keep the header."""
    parts: list[bytes] = []
    at = 0
    while match := _CHUNK.match(body, at):
        at = match.end() + int(match[1], 16)
        if at == match.end():
            return b"".join(parts)
        if not body.startswith((b"\r\n", b"\n"), at):
            break
        parts.append(body[match.end() : at])
    if parts:
        raise BadContentError("a chunk of its body is not as long as it says, or they do not end")
    return body


def _unpack(body: bytes, coding: str, where: str) -> bytes:
    """A body decompressed; as it is where it does not begin like something compressed."""
    if coding in _UNPACKED or not body or PAGE.match(body):
        return body
    if coding not in _CODINGS:
        raise BadContentError(f"a body in the content encoding {coding[:40]}, which is not read")
    magic, unpack = _CODINGS[coding]
    if not body.startswith(magic):
        return body
    try:
        with translate_native_errors(ValueError):
            data, whole = unpack(body)
    except ValueError as error:
        if isinstance(error.__cause__, ImportError):
            what = f"a body in the content encoding {coding}"
            raise missing_package(where, what, "brotli", "warc") from error
        raise BadContentError(f"its {coding} body is damaged: {error}") from error
    if len(data) > MAX_RECORD:
        most = f"more than {MAX_RECORD >> 20} MiB when it is decompressed"
        raise BadContentError(f"a body that is too large: {most}")
    if not whole:
        raise BadContentError("a compressed body that ends too early")
    return data


def _inflate(body: bytes) -> tuple[bytes, bool]:
    """Of gzip, and of deflate with the head and sum of zlib or without: browsers take both."""
    zlib_begins = body[0] & 15 == 8 and int.from_bytes(body[:2]) % 31 == 0
    unpacker = zlib.decompressobj(31 if body[:2] == _GZIP else 15 if zlib_begins else -15)
    return unpacker.decompress(body, MAX_RECORD + 1), unpacker.eof


def _unpack_zstd(body: bytes) -> tuple[bytes, bool]:
    reader = zstandard.ZstdDecompressor(max_window_size=MAX_RECORD).stream_reader(body)
    return reader.read(MAX_RECORD + 1), True


def _unpack_brotli(body: bytes) -> tuple[bytes, bool]:
    import brotli

    unpacker = brotli.Decompressor()
    return unpacker.process(body, output_buffer_limit=MAX_RECORD + 1), unpacker.is_finished()


# How a body begins that is compressed so, and what gives its content, and whether that is all.
_CODINGS: Final[dict[str, tuple[bytes, Callable[[bytes], tuple[bytes, bool]]]]] = {
    **dict.fromkeys(("gzip", "x-gzip"), (_GZIP, _inflate)),
    "deflate": (b"", _inflate),
    "zstd": (b"\x28\xb5\x2f\xfd", _unpack_zstd),
    "br": (b"", _unpack_brotli),
}
