"""Files that are one document each: what they are, and their row, or a row for each chapter.

Jupyter notebooks of format 3 and 4 are read too: the texts of their cells in order, without the
outputs.
"""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import BinaryIO, Final, NamedTuple

from ingot.converters.errors import SourceError
from ingot.converters.paths import Node, compile_path
from ingot.converters.rows import Json
from ingot.converters.sources.documents import headers, html_pages, kinds
from ingot.converters.sources.documents.headers import (
    FENCED,
    MD_HEADING,
    markdown_title,
    rst_titles,
    title_text,
)
from ingot.converters.sources.facts import FileFacts, NoData, SourceFile, SourceSpec
from ingot.converters.sources.file_kinds import BINARY, blank_verdict, describe_magic
from ingot.converters.sources.formats.detection import FilePeek, stated_encoding
from ingot.converters.sources.formats.line_kinds import strange_text, text_shape
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    JsonTextError,
    RowChunk,
    join_parts,
    parse_json,
    row_excerpt,
)
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
_share_facts = lru_cache(FileFacts)  # of very many files they are the same
_GUESSED: Final = frozenset({"format"})  # a mapping has to state it: beside data it is not found


def document_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | NoData | None:
    """Return the facts of a document, where documents are asked for. Raises SourceError."""
    if spec.format not in kinds.DOCUMENTS:
        return None
    if known := describe_magic(seen.head):
        return known
    kind, _ = kinds.document_kind(entry.name, seen.head[:_KIND_HEAD]) or ("", "")
    if not kind and (spec.files is not None or "." not in entry.name.rpartition("/")[2]):
        kind = kinds.TEXT
    encoding = stated_encoding(entry, spec) or _find_encoding(kind, seen)
    if encoding is None:
        return BINARY
    text = seen.head.decode(encoding.name, "replace").lstrip("\ufeff")
    if not text.strip():
        return blank_verdict(whole=seen.whole)
    shape = frozenset((text_shape(entry.name, text.split("\n")),))
    if not kind:
        strange = strange_text(shape)
        unlike = NoData("neither its name nor its content is that of a document")
        return NoData.unread(strange) if strange else unlike
    if kind == kinds.NOTEBOOK and not text.lstrip().startswith("{"):
        return NoData("named as a Jupyter notebook, and none by its content")
    if kind == kinds.HTML and spec.html != html_pages.RAW:
        html_pages.check_installed(str(entry.place))
    return _share_facts(
        format=spec.format,
        layout=kind,
        encoding=encoding.name,
        newline="\r" if "\r" in text and "\n" not in text else "\n",
        compression=seen.compression,
        rows=None if spec.format == kinds.CHAPTERS else 1,
        shape=shape if strange_text(shape) else frozenset(),
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
    """Yield the row of a document; broken where it is too large or no text. Raises SourceError."""
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
        present = {key: value for key, value in row.items() if value not in (None, "")}
        row = {"text": row["text"], "path": file.name, "kind": facts.layout, **present}
    if facts.format != kinds.CHAPTERS or isinstance(row, BrokenRow):
        yield RowChunk(values=[row])
        return
    for part in _split_chapters(row["text"], facts.layout or ""):
        yield RowChunk(values=[{**row, **part}])


def _read_fields(file: SourceFile, spec: SourceSpec, text: str) -> dict[str, Json] | BrokenRow:
    """What a document says: its text, and what else is known of it."""
    kind = file.facts.layout
    if kind in _PROSE:
        split, find_title = _PROSE[kind]
        fields, body = split(text)
        named = {key.lower(): value for key, value in (fields or {}).items()}
        title = title_text(named.get("title")) or find_title(body)
        return {"text": body, "title": title, "front_matter": fields}
    if kind == kinds.HTML:
        return html_pages.read_page(text, str(file.place), raw=spec.html == html_pages.RAW)
    if kind == kinds.NOTEBOOK:
        return _read_notebook(text.encode())
    if kind in (kinds.LATEX, kinds.CODE):
        title = headers.latex_title(text) if kind == kinds.LATEX else None
        head = text[:_KIND_HEAD].encode("utf-8", "replace")
        _, language = kinds.document_kind(file.name, head) or ("", "")
        row = {"text": text, "title": title, "programming_language": language}
        return {**row, "license": headers.find_licence(text)}
    return {"text": text}


_PROSE: Final = {
    kinds.MARKDOWN: (headers.split_front_matter, headers.markdown_title),
    kinds.RST: (headers.split_docinfo, headers.rst_title),
}


_FENCES = re.compile(r"`{3,}")
_MOST_HEADING = 6


def _read_notebook(data: bytes) -> dict[str, Json] | BrokenRow:
    """Return a notebook as Markdown, its first heading as title, and the language of its code.

    Broken where it is no JSON, or has no cells.
    """
    try:
        document = parse_json(data)
    except JsonTextError as error:
        return BrokenRow(str(error), row_excerpt(data))
    cells = _list_cells(document)
    if cells is None:
        return BrokenRow("a notebook without cells", row_excerpt(data))
    # The language of the kernel; of format 3 that of the first cell of code.
    paths = ("metadata.language_info.name", "metadata.kernelspec.language")
    values = [hit.value for path in paths for hit in compile_path(path).nodes(Node(document))]
    values += [cell.get("language") for cell in cells]
    language = next((value.lower() for value in values if isinstance(value, str) and value), None)
    parts = [(kind, text) for cell in cells for kind, text in _cell_text(cell, language or "")]
    titles = (markdown_title(text) for kind, text in parts if kind != "code")
    return {
        "text": "\n\n".join(text for _, text in parts),
        "title": next(filter(None, titles), None),
        "programming_language": language,
    }


def _list_cells(document: Json) -> list[dict[str, Json]] | None:
    """The cells of format 4, or those of all worksheets of format 3; None without any list."""
    if not isinstance(document, dict):
        return None
    sheets = document.get("worksheets")
    cell_lists = [document] if "cells" in document else sheets if isinstance(sheets, list) else []
    lists: list[Json] = [sheet.get("cells") for sheet in cell_lists if isinstance(sheet, dict)]
    if not lists or not all(isinstance(cells, list) for cells in lists):
        return None
    return [cell for cells in lists for cell in cells if isinstance(cell, dict)]


def _cell_text(cell: dict[str, Json], language: str) -> Iterator[tuple[str, str]]:
    """The type and the text of a cell that has one; of code in a fence."""
    kind = str(cell.get("cell_type"))
    source = cell.get("input" if kind == "code" and "input" in cell else "source")
    lines = source if isinstance(source, list) else [source]
    text = "".join(line for line in lines if isinstance(line, str)).strip("\n")
    if not text.strip():
        return
    if kind == "code":
        longest = max(map(len, _FENCES.findall(text)), default=2)
        fence = "`" * (longest + 1)
        text = f"{fence}{language}\n{text}\n{fence}"
    elif kind == "heading":
        level = cell.get("level")
        level = level if isinstance(level, int) and 1 <= level <= _MOST_HEADING else 1
        text = f"{'#' * level} {text}"
    yield kind, text


class _Heading(NamedTuple):
    start: int
    level: int
    title: str | None


def _split_chapters(text: str, kind: str) -> Iterator[dict[str, str | int | None]]:
    """Yield `text`, `chapter` and `chapter_number` of each chapter, from its heading on.

    A chapter begins at a heading of the highest level that has more than one. What stands before
    the first one is a row without these fields, and so is a document without chapters.
    """
    headings = list(_FINDERS[kind](text)) if kind in _FINDERS else []
    counts = Counter(heading.level for heading in headings)
    level = min((level for level, count in counts.items() if count > 1), default=None)
    chapters = [heading for heading in headings if heading.level == level]
    bounds = [0, *(chapter.start for chapter in chapters), len(text)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        body = text[start:end].rstrip()
        if number:
            title = chapters[number - 1].title
            yield {"text": body, "chapter": title, "chapter_number": number}
        elif body or not chapters:
            yield {"text": body}


def _markdown_headings(text: str) -> Iterator[_Heading]:
    blanked = FENCED.sub(lambda block: " " * len(block[0]), text)
    for match in MD_HEADING.finditer(blanked):
        line = match[0].lstrip()
        under = 1 if line.endswith("=") else 2
        level = len(line) - len(line.lstrip("#")) if line.startswith("#") else under
        yield _Heading(match.start(), level, title_text(match[2] or match[1].rstrip().rstrip("#")))


def _rst_headings(text: str) -> Iterator[_Heading]:
    signs: list[str] = []  # the first one is that of the highest level
    for title in rst_titles(text):
        if title[3] not in signs:
            signs.append(title[3])
        yield _Heading(title.start(), signs.index(title[3]), title_text(title[1]))


_LATEX: Final = re.compile(r"^[ \t]{0,99}\\(part|chapter|section)\*?\{([^{}\n]{0,300})\}", re.M)
# A line of its own between blank ones: "CHAPTER IV. The Mill", "Kapitel 4", "第四章 磨坊".
_TEXT: Final = re.compile(
    r"(?:\A|\n[ \t]{0,99}\n)[ \t]{0,99}("
    r"(?:chapter|chapitre|kapitel|cap[ií]tulo|capitolo|глава)[ \t]{1,9}\w[^\n]{0,150}"
    r"|第[\d〇零一二三四五六七八九十百千]{1,9}[章回][^\n]{0,60}"
    r"|(?:prologue|epilogue|preface|foreword|introduction|afterword|prolog|epilog)\.?"
    r")(?=[ \t]{0,99}\n[ \t]{0,99}\n)",
    re.I,
)


def _latex_headings(text: str) -> Iterator[_Heading]:
    for match in _LATEX.finditer(text):
        level = ("chapter", "section", "part").index(match[1])
        yield _Heading(match.start(), level, title_text(match[2]))


def _text_headings(text: str) -> Iterator[_Heading]:
    for match in _TEXT.finditer(text):
        yield _Heading(match.start(1), 1, title_text(match[1]))


_FINDERS: Final[dict[str, Callable[[str], Iterator[_Heading]]]] = {
    kinds.MARKDOWN: _markdown_headings,
    kinds.RST: _rst_headings,
    kinds.LATEX: _latex_headings,
    kinds.TEXT: _text_headings,
}
