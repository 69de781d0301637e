"""Rejected rows: as JSON lines beside the records, and as text for people."""

import contextlib
import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

from ingot.converters.output.files import output_errors
from ingot.converters.records.schema import json_line
from ingot.converters.rows import Json, Reject

FOUND_CHARS: Final = 200  # of what a line holds
_SHOWN_CHARS: Final = 100


def part_name(part: int, record_format: str) -> str:
    """File name of a part: `part-00000.parquet`."""
    return f"part-{part:05d}.{record_format}"


class RejectWriter:
    """Writes `part-00000.jsonl` of rejected rows: file, row, element, reason, path, found (cut).

    The file appears under its name when the block ends well; no rejects, no file.
    """

    def __init__(self, folder: Path, *, part: int = 0) -> None:
        self.path = folder / part_name(part, "jsonl")
        self.count = 0
        self._staged = self.path.with_name(f"{self.path.name}.tmp")
        self._file: BinaryIO | None = None

    def write(self, rejects: Iterable[Reject]) -> None:
        """Append rejects, in order."""
        lines = [reject_line(reject) for reject in rejects]
        if not lines:
            return
        with output_errors(self.path):
            self._file = self._file or self._staged.open("wb")
            self._file.write(b"".join(lines))
        self.count += len(lines)

    def close(self) -> None:
        """Finish the file: it is whole and under its name afterwards."""
        if self._file is None:
            return
        with output_errors(self.path):
            self._file.close()
            self._file = None
            self._staged.replace(self.path)

    def __enter__(self) -> "RejectWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            with contextlib.suppress(OSError):
                if self._file is not None:
                    self._file.close()
            with contextlib.suppress(OSError):
                self._staged.unlink()


def reject_line(reject: Reject) -> bytes:
    """A reject as a line of JSON: file, row, element, reason, path, found (its beginning)."""
    return json_line(reject_document(reject))


def reject_document(reject: Reject) -> dict[str, Json]:
    """A reject as the object of its line."""
    found = _encodable_text(reject.found)
    return {
        "file": _encodable_text(reject.file),
        "row": reject.row,
        "element": reject.element,
        "reason": reject.reason,
        "path": _encodable_text(reject.path),
        "found": found if found is None or len(found) <= FOUND_CHARS else f"{found[:FOUND_CHARS]}…",
    }


def _encodable_text(text: str | None) -> str | None:
    """The text with whatever UTF-8 cannot hold (file names, broken rows) replaced by `?`."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


def reject_text(reject: Reject) -> str:
    """A reject for people: place, reason, path, what was found."""
    return _document_text(reject_document(reject))


def first_reject_texts(files: Iterable[Path], most: int) -> list[str]:
    """Return the first rejects of some parts as `reject_text` does, without the filtered ones."""
    texts: list[str] = []
    for file in files:
        with file.open("rb") as stream:
            rejects = (one for one in map(json.loads, stream) if one["reason"] != "filtered")
            texts += map(_document_text, islice(rejects, most - len(texts)))
    return texts


def _document_text(reject: dict[str, Json]) -> str:
    element = "" if reject["element"] is None else f", element {reject['element']}"
    path = f" at {reject['path']}" if reject["path"] else ""
    found = f": {reject['found'][:_SHOWN_CHARS]}" if reject["found"] else ""
    return f"{reject['file']} row {reject['row']}{element}: {reject['reason']}{path}{found}"
