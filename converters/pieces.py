"""One shard of a former result, to be taken over into a new one; see `takeover`."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ingot.converters.records import part_name
from ingot.converters.reject_texts import first_texts
from ingot.converters.rows import Json

SHOWN_REJECTS = 3


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What a former result holds of a shard.

    Attributes:
        folder: the former result.
        counts: what came of the shard's rows, as `Counts.to_document` gave it, but for the first
            rejects: these quote rows, and are read from where rows may stand.
        inputs: name, bytes and sha256 of its files.
        parts: path (in the former result), bytes and sha256 of its record parts, in order.
        rejected_parts: the same of its reject parts.
    """

    folder: Path
    counts: dict[str, Json]
    inputs: list[dict[str, Json]]
    parts: list[dict[str, Json]]
    rejected_parts: list[dict[str, Json]]

    def take(self, draft: Path) -> dict[str, Json] | None:
        """Put the parts into a shard's folder, numbered from 0; None if one is not what it was.

        Raises:
            OSError: the folder cannot be written.
        """
        parts = self._taken(draft, self.parts)
        rejected = self._taken(draft, self.rejected_parts)
        if parts is None or rejected is None:
            return None
        return {
            **self.counts,
            "first_rejects": self._first_rejects(),
            "inputs": self.inputs,
            "parts": parts,
            "rejected_parts": rejected,
            "seconds": 0.0,
            "peak_rss": 0,
            "taken_over": True,
        }

    def _first_rejects(self) -> list[str]:
        if not any(self.counts["rejects"].values()):
            return []
        files = [self.folder / part["path"] for part in self.rejected_parts]
        return first_texts(files, SHOWN_REJECTS)

    def _taken(self, draft: Path, parts: list[dict[str, Json]]) -> list[dict[str, Json]] | None:
        taken = []
        for number, part in enumerate(parts):
            old = PurePosixPath(part["path"])
            new = old.with_name(part_name(number, old.suffix.lstrip(".")))
            if not _taken_over(self.folder / old, draft / new, part):
                return None
            taken.append({**part, "path": new.as_posix()})
        return taken


def _taken_over(old: Path, new: Path, part: dict[str, Json]) -> bool:
    """Whether the part is there and holds what it held; then it is also `new`."""
    try:
        with old.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            size = stream.tell()
    except OSError:  # gone, or not readable any more: the shard is converted
        return False
    if (size, digest) != (part["bytes"], part["sha256"]):
        return False
    try:
        os.link(old, new)
    except OSError:  # a file system without links, or no more of them
        shutil.copyfile(old, new)
    return True
