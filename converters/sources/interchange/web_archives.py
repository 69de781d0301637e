"""Web archives (WARC, WET): the responses, resources and conversions of a crawl, one a row.

Records are cut here rather than by a package: warcio and fastwarc search for the next record where
one is damaged, or give what is left of it, without a word.
"""

import base64
import hashlib
import io
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

import zstandard

from ingot.converters.errors import SourceError, translate_read_errors, truncated_error
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    RowChunk,
    chunk_sized_rows,
    row_excerpt,
)
from ingot.converters.sources.interchange.mail import decode_text
from ingot.converters.sources.storage.listing import Entry

MAX_RECORD: Final = 32 << 20  # bytes of a record, and of what it becomes when it is decompressed
_ROWS: Final = ("response", "resource", "conversion")
_MAX_HEADERS: Final = 1 << 20
_MAX_LINE: Final = 64 << 10
_TYPE = re.compile(rb"^warc-type:[ \t]{0,99}(\w{1,40})", re.IGNORECASE | re.MULTILINE)
_META_CHARSET = re.compile(rb"<meta\s[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.I)
_CHARSET = re.compile(r"charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]{0,99}(?:;[^\n]{0,999})?\r?\n")
_TEXT_TYPE = re.compile(r"text/.*|application/(?:.*[+/])?(?:json|xml|javascript|x-ndjson)")
_HTML_TYPE = re.compile(r"(?:text/html|application/xhtml\+xml)")
_PAGE_BEGIN = re.compile(rb"\s{0,999}(?:<!--[^>]{0,999}-->\s{0,999})?<(?:!doctype html|html)", re.I)
_DIGESTS: Final = ("md5", "sha1", "sha256", "sha384", "sha512")
_UNPACKED: Final = ("", "identity", "none", "binary", "8bit", "utf-8")


def warc_facts(_: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of a web archive; pages and texts are of two shapes."""
    if spec.format not in (None, "warc") or not seen.head.startswith(b"WARC/"):
        return None
    types = [found.decode().lower() for found in _TYPE.findall(seen.head)]
    kind = next((one for one in types if one in _ROWS), "response")
    fields = ("text", "language") if kind == "conversion" else ("html", "status", "content_type")
    return FileFacts(format="warc", compression=seen.compression, shape=frozenset(fields))


def read_warc(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """The rows of a web archive. Raises SourceError."""
    return chunk_sized_rows(_rows(stream, str(file.place)))


def _rows(stream: BinaryIO, where: str) -> Iterator[tuple[Json, int]]:
    source = cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, stream), 1 << 18))
    number = 0
    while True:
        with translate_read_errors(where):
            headers = _read_headers(source, where, number)
            if headers is None:
                return
            wanted = headers.get("warc-type", "").lower() in _ROWS
            content = _read_content(source, _content_length(headers, where, number), wanted)
        number += 1
        if content is None:
            raise truncated_error(where, f"it ends inside record {number - 1}")
        if wanted:
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
    lines, size = [], 0
    while (line := source.readline(_MAX_LINE)).strip(b"\r\n"):
        lines.append(line)
        size += len(line)
        if size > _MAX_HEADERS:
            raise SourceError(where, f"record {number} has headers of more than 1 MiB")
    if not line:
        raise truncated_error(where, f"it ends inside the headers of record {number}")
    return _parse_headers(lines)


def _parse_headers(lines: list[bytes]) -> dict[str, str]:
    """The first value of each header by its name in small letters."""
    headers: dict[str, str] = {}
    name = ""
    for line in lines:
        text = decode_text(line.rstrip(b"\r\n"), "utf-8")[0]
        if text[:1] in (" ", "\t") and name:  # it goes on
            headers[name] += f" {text.strip()}"
            continue
        key, colon, value = text.partition(":")
        if (new := key.strip().lower()) not in headers and colon:
            name = new
            headers[name] = value.strip()
        else:
            name = ""
    return headers


def _content_length(headers: dict[str, str], where: str, number: int) -> int:
    text = headers.get("content-length", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        problem = f"record {number} has no Content-Length that is a number: {text[:40]!r}"
        raise SourceError(where, problem, "fetch the file again")
    return int(text)


def _read_content(source: BinaryIO, size: int, wanted: bool) -> bytes | None:
    """The content of a record: none of one that is not wanted, its beginning of one too large.

    None where it is cut off.
    """
    kept = b""
    if wanted:
        kept = source.read(min(size, MAX_RECORD + 1))
        size -= len(kept)
        if size and len(kept) <= MAX_RECORD:
            return None
    while size > 0:
        data = source.read(min(size, 1 << 20))
        if not data:
            return None
        size -= len(data)
    return kept


def _record_row(headers: dict[str, str], content: bytes, where: str) -> Json:
    if len(content) > MAX_RECORD:
        return BrokenRow(f"a record of more than {MAX_RECORD >> 20} MiB", _url(headers))
    if headers.get("warc-segment-number"):
        return BrokenRow("a record in several segments, which are not joined", _url(headers))
    if (digest := headers.get("warc-block-digest")) and not _has_digest(content, digest):
        return BrokenRow(f"its content has not the digest {digest[:80]}", _url(headers))
    status, of_content = None, headers.get("content-type", "")
    sent: dict[str, str] = {}
    if content.startswith(b"HTTP/") and "application/http" in of_content.lower():
        status, sent, content = _split_http(content)
        of_content = sent.get("content-type", "")
        try:
            content = _decode_payload(content, sent, where)
        except _PayloadError as error:
            return BrokenRow(str(error), _url(headers))
    return {
        "url": _url(headers) or None,
        "date": headers.get("warc-date"),
        "type": headers["warc-type"].lower(),
        "id": headers.get("warc-record-id", "").strip("<>") or None,
        "status": status,
        "content_type": _type_of(of_content) or headers.get("warc-identified-payload-type"),
        "language": headers.get("warc-identified-content-language") or sent.get("content-language"),
        "size": len(content),
        "truncated": headers.get("warc-truncated"),
        **_text_fields(content, of_content, headers),
    }


def _url(headers: dict[str, str]) -> str:
    return headers.get("warc-target-uri", "").strip("<>")


def _type_of(content_type: str) -> str | None:
    return content_type.partition(";")[0].strip().lower() or None


def _text_fields(content: bytes, of_content: str, headers: dict[str, str]) -> dict[str, Json]:
    """The page or text of a payload, and its encoding; of others nothing."""
    kind = headers.get("warc-identified-payload-type") or _type_of(of_content) or ""
    page = _HTML_TYPE.fullmatch(kind) or (not kind and _PAGE_BEGIN.match(content))
    if not content or not (page or _TEXT_TYPE.fullmatch(kind)):
        return {"charset": None, "html": None, "text": None}
    stated = _CHARSET.search(of_content)
    label = stated[1] if stated else None
    if headers["warc-type"].lower() == "conversion":
        label = label or "utf-8"
    if page and not label and (meta := _META_CHARSET.search(content[:4096])):
        label = meta[1].decode("ascii", "replace")
    text, charset = decode_text(content, label)
    # A main text is extracted from `html` by whoever reads it: `text` is free for it.
    return {"charset": charset, "html": text if page else None, "text": None if page else text}


def _has_digest(content: bytes, digest: str) -> bool:
    """Whether content has a digest, in hex or base32; true of an algorithm that is not known."""
    name, _, value = digest.partition(":")
    name, value = name.strip().lower().replace("-", ""), value.strip()
    if name not in _DIGESTS:
        return True
    found = hashlib.new(name, content, usedforsecurity=False)
    coded = base64.b32encode(found.digest()).decode().rstrip("=")
    return value.lower() == found.hexdigest() or value.upper().rstrip("=") == coded


def _split_http(content: bytes) -> tuple[int | None, dict[str, str], bytes]:
    """The status, headers and body of an HTTP response."""
    end = re.search(rb"\r?\n\r?\n", content)
    head = content[: end.start()] if end else content
    first, *lines = head.split(b"\n")
    words = first.split()
    status = int(words[1]) if len(words) > 1 and re.fullmatch(rb"\d{3}", words[1]) else None
    return status, _parse_headers(lines), content[end.end() :] if end else b""


class _PayloadError(ValueError):
    """A payload that cannot be had; the text says why."""


def _decode_payload(body: bytes, sent: dict[str, str], where: str) -> bytes:
    """A body without its chunks and compression, where it still has these."""
    if "chunked" in sent.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    for coding in reversed(sent.get("content-encoding", "").lower().split(",")[:4]):
        body = _unpack(body, coding.strip(), where)
    return body


def _join_chunks(body: bytes) -> bytes:
    """The data of chunks; many programs write them joined and keep the header."""
    parts: list[bytes] = []
    at = 0
    while found := _CHUNK.match(body, at):
        size = int(found[1], 16)
        at = found.end() + size
        if not size:
            return b"".join(parts)
        if at > len(body) or not body.startswith((b"\r\n", b"\n"), at):
            if parts:
                raise _PayloadError("a chunk of its body is not as long as it says")
            return body
        parts.append(body[found.end() : at])
        at += 2 if body.startswith(b"\r\n", at) else 1
    if parts:
        raise _PayloadError("the chunks of its body do not end")
    return body


def _unpack(body: bytes, coding: str, where: str) -> bytes:
    """A body decompressed; as it is where it does not begin like something compressed."""
    if coding in _UNPACKED or not body:
        return body
    try:
        if coding in ("gzip", "x-gzip"):
            return _inflate(body, 31) if body.startswith(b"\x1f\x8b") else body
        if coding == "deflate":
            zlib_begins = body[0] & 15 == 8 and int.from_bytes(body[:2]) % 31 == 0
            return _inflate(body, 15 if zlib_begins else -15)  # browsers take both forms
        if coding == "zstd" and body.startswith(b"\x28\xb5\x2f\xfd"):
            reader = zstandard.ZstdDecompressor(max_window_size=MAX_RECORD).stream_reader(body)
            return _within_bounds(reader.read(MAX_RECORD + 1))
    except (zlib.error, zstandard.ZstdError) as error:
        raise _PayloadError(f"its {coding} body is damaged: {error}") from error
    if coding == "br":
        return _unpack_brotli(body, where)
    raise _PayloadError(f"a body in the content encoding {coding[:40]}, which is not read")


def _unpack_brotli(body: bytes, where: str) -> bytes:
    try:
        import brotli
    except ImportError as error:
        problem = "bodies in the content encoding br need the package brotli"
        raise SourceError(where, problem, 'pip install "ingot[warc]"') from error
    unpacker = brotli.Decompressor()
    try:
        data: bytes = unpacker.process(body, output_buffer_limit=MAX_RECORD + 1)
    except brotli.error as error:
        if _PAGE_BEGIN.match(body):  # it was unpacked before, and kept its header
            return body
        raise _PayloadError("its br body is damaged") from error
    if not unpacker.is_finished():
        raise _PayloadError("a compressed body that ends too early, or is too large")
    return data


def _inflate(body: bytes, form: int) -> bytes:
    unpacker = zlib.decompressobj(form)
    data = _within_bounds(unpacker.decompress(body, MAX_RECORD + 1))
    if not unpacker.eof:
        raise _PayloadError("a compressed body that ends too early")
    return data


def _within_bounds(data: bytes) -> bytes:
    if len(data) > MAX_RECORD:
        raise _PayloadError(f"a body of more than {MAX_RECORD >> 20} MiB when it is decompressed")
    return data
