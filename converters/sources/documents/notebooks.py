"""Jupyter notebooks of format 3 and 4: the texts of their cells in order, without the outputs."""

import re
from collections.abc import Iterator

from ingot.converters.paths import Node, compile_path
from ingot.converters.rows import Json
from ingot.converters.sources.documents.headers import markdown_title
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    JsonTextError,
    parse_json,
    row_excerpt,
)

_FENCES = re.compile(r"`{3,}")
_MOST_HEADING = 6


def read_notebook(data: bytes) -> dict[str, Json] | BrokenRow:
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
    language = _find_language(document, cells)
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
    held = [document] if "cells" in document else sheets if isinstance(sheets, list) else []
    lists: list[Json] = [one.get("cells") for one in held if isinstance(one, dict)]
    if not lists or not all(isinstance(cells, list) for cells in lists):
        return None
    return [cell for cells in lists for cell in cells if isinstance(cell, dict)]


def _find_language(document: dict[str, Json], cells: list[dict[str, Json]]) -> str | None:
    """The language of the kernel; of format 3 that of the first cell of code."""
    paths = ("metadata.language_info.name", "metadata.kernelspec.language")
    told = [hit.value for path in paths for hit in compile_path(path).nodes(Node(document))]
    told += [cell.get("language") for cell in cells]
    return next((one.lower() for one in told if isinstance(one, str) and one), None)


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
