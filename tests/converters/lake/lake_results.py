"""Small results for the tests of a lake, made by the conversion itself."""

import json
from pathlib import Path
from typing import Any

from ingot.converters.convert.job import ConvertOptions, Result, convert
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import open_source

PT = {"version": 2, "text": "text", "meta": {"language": "lang", "original_id": "id"}}
SFT = {
    "version": 2,
    "messages": [{"each": "turns[*]", "role": ["user", "assistant"], "content": "$"}],
    "system": "system",
}


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "utf-8")
    return path


def made(folder: Path, rows: list[Any], document: dict = PT, **options: Any) -> Result:
    """The result `folder` of rows, which lie beside it."""
    raw = write_lines(folder.with_name(f"{folder.name}-raw") / "rows.jsonl", rows)
    settings = ConvertOptions(**{"workers": 1, **options})
    return convert(open_source(str(raw)), bind(document, ()), folder, settings)
