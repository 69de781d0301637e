"""Files that are one document each: what they are, and their one row."""

import codecs
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, Final

from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources.documents import headers, html_pages, kinds
from ingot.converters.sources.documents.chapters import split_chapters
from ingot.converters.sources.documents.notebooks import read_notebook
from ingot.converters.sources.facts import FileFacts, NoData, SourceFile, SourceSpec
from ingot.converters.sources.file_kinds import BINARY, BLANK, describe_magic
from ingot.converters.sources.formats.detection import FilePeek, stated_encoding
from ingot.converters.sources.formats.row_chunks import BrokenRow, RowChunk, join_parts
from ingot.converters.sources.formats.text import (
    Encoding,
    decode_text_row,
    detect_encoding,
    read_utf8_blocks,
)
from ingot.converters.sources.storage.listing import Entry

MOST_BYTES: Final = 64 << 20  # of a document, as UTF-8
_MOST_NOTEBOOK: Final = 32 << 20  # whose cells take many times their bytes
_KIND_HEAD: Final = 1024  # bytes that tell a script from a page
_GUESSED: Final = frozenset({"format"})  # a mapping has to state it: beside data it is not found


def document_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | NoData | None:
    """Return the facts of a document, where documents are asked for. Raises SourceError."""
    if spec.format not in kinds.DOCUMENTS:
        return None
    if magic := describe_magic(seen.head):
        return NoData(magic)
    kind, _ = kinds.document_kind(entry.name, seen.head[:_KIND_HEAD]) or ("", "")
    if not kind and (spec.files is not None or "." not in entry.name.rpartition("/")[2]):
        kind = kinds.TEXT
    if not kind:
        return NoData("neither its name nor its content is that of a document")
    encoding = stated_encoding(entry, spec) or _find_encoding(kind, seen)
    if encoding is None:
        return NoData(BINARY)
    text = seen.head.decode(encoding.name, "replace").lstrip("\ufeff")
    if not text.strip():
        return NoData(BLANK[0] if seen.whole else BLANK[1])
    if kind == kinds.NOTEBOOK and not text.lstrip().startswith("{"):
        return NoData("named as a Jupyter notebook, and none by its content")
    if kind == kinds.HTML and spec.html != html_pages.RAW:
        html_pages.check_installed(str(entry.place))
    return FileFacts(
        format=spec.format,
        layout=kind,
        encoding=encoding.name,
        newline="\r" if "\r" in text and "\n" not in text else "\n",
        compression=seen.compression,
        rows=None if spec.format == kinds.CHAPTERS else 1,
        guessed=_GUESSED | ({"encoding"} if encoding.guessed else set()),
    )


def _find_encoding(kind: str, seen: FilePeek) -> Encoding | None:
    """The encoding that a page declares, if its beginning is in it; else as of any text."""
    declared = html_pages.declared_encoding(seen.head) if kind == kinds.HTML else None
    if declared is not None and b"\0" not in seen.head:
        with suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder(declared)().decode(seen.head, seen.whole)
            return Encoding(declared)
    return detect_encoding([seen.head, *seen.windows], seen.whole)


def read_document(file: SourceFile, spec: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """The row of a document; broken where it is too large or no text. Raises SourceError."""
    where, facts = str(file.place), file.facts
    if spec.root not in (None, "$"):
        raise SourceError(where, "a document is one row", "leave `root` out")
    parts = read_utf8_blocks(stream, where, facts.encoding, facts.newline)
    most = _MOST_NOTEBOOK if facts.layout == kinds.NOTEBOOK else MOST_BYTES
    whole = join_parts(parts, most)
    row = whole if isinstance(whole, BrokenRow) else decode_text_row(whole)
    if not isinstance(row, BrokenRow):
        row = _read_fields(file, spec, row["text"].replace("\r\n", "\n"))
    if not isinstance(row, BrokenRow):
        told = {key: value for key, value in row.items() if value not in (None, "")}
        row = {"text": row["text"], "path": file.name, "kind": facts.layout, **told}
    if facts.format != kinds.CHAPTERS or isinstance(row, BrokenRow):
        yield RowChunk(values=[row])
        return
    for part in split_chapters(row["text"], facts.layout or ""):
        yield RowChunk(values=[{**row, **part}])


def _read_fields(file: SourceFile, spec: SourceSpec, text: str) -> dict[str, Json] | BrokenRow:
    """What a document says: its text, and what else is known of it."""
    kind = file.facts.layout
    if kind in _PROSE:
        split, find_title = _PROSE[kind]
        fields, body = split(text)
        title = headers.stated_title(fields) or find_title(body)
        return {"text": body, "title": title, "front_matter": fields}
    if kind == kinds.HTML:
        return html_pages.read_page(text, str(file.place), raw=spec.html == html_pages.RAW)
    if kind == kinds.NOTEBOOK:
        return read_notebook(text.encode())
    if kind in (kinds.LATEX, kinds.CODE):
        title = headers.latex_title(text) if kind == kinds.LATEX else None
        head = text[:_KIND_HEAD].encode("utf-8", "replace")
        _, language = kinds.document_kind(file.name, head) or ("", "")
        told = {"text": text, "title": title, "programming_language": language}
        return {**told, "license": headers.find_licence(text)}
    return {"text": text}


_PROSE: Final = {
    kinds.MARKDOWN: (headers.split_front_matter, headers.markdown_title),
    kinds.RST: (headers.split_docinfo, headers.rst_title),
}
