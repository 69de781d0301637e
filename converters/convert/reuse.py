"""Shards of a former result that are linked into a new one instead of being converted again."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from ingot.converters.convert.result import (
    RECORD_COUNTS,
    RECORDS_FOLDER,
    REJECTED_FOLDER,
    ROW_COUNTS,
    SHOWN_REJECTS,
    Counts,
)
from ingot.converters.output.commit import FinishedResult
from ingot.converters.output.files import file_entry
from ingot.converters.output.identity import RunIdentity
from ingot.converters.records.writers import first_reject_texts, part_name
from ingot.converters.rows import Json
from ingot.converters.sources import Source, SourceFile
from ingot.converters.sources.facts import absolute_location, input_stamp


@dataclass(frozen=True, kw_only=True)
class FormerShard:
    """What a former result holds of a shard.

    Attributes:
        counts: what came of the shard's rows, as `Counts.to_document` gave it, but for the first
    """

    folder: Path
    counts: dict[str, Json]
    inputs: list[dict[str, Json]]
    parts: list[dict[str, Json]]
    rejected_parts: list[dict[str, Json]]

    def take(self, draft: Path) -> dict[str, Json] | None:
        """Put the parts into a shard's folder, numbered from 0; None if one is not what it was."""
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
        return first_reject_texts(files, SHOWN_REJECTS)

    def _taken(self, draft: Path, parts: list[dict[str, Json]]) -> list[dict[str, Json]] | None:
        taken = []
        for number, part in enumerate(parts):
            old = PurePosixPath(part["path"])
            new = old.with_name(part_name(number, old.suffix.lstrip(".")))
            if not _link_part(self.folder, part, draft / new):
                return None
            taken.append({**part, "path": new.as_posix()})
        return taken


def _link_part(folder: Path, part: dict[str, Json], new: Path) -> bool:
    """Link a part to `new`; False if it is gone or not what it was."""
    try:
        if file_entry(folder, Path(part["path"])) != part:
            return False
    except OSError:  # gone, or not readable any more: the shard is converted
        return False
    try:
        os.link(folder / part["path"], new)
    except OSError:  # a file system without links, or no more of them
        shutil.copyfile(folder / part["path"], new)
    return True


PIECES: Final = "pieces"


def shard_key(source: Source, files: Sequence[SourceFile]) -> str | None:
    """What a shard is known by; None where a change of a file would not show."""
    if any(file.mtime_ns is None and file.etag is None for file in files):
        return None
    known = [[input_stamp(file), _file_facts(file)] for file in files]
    digest = hashlib.sha256(json.dumps([absolute_location(source.location), known]).encode())
    return digest.hexdigest()


def _file_facts(file: SourceFile) -> dict[str, Json]:
    facts = asdict(file.facts).items()
    return {name: sorted(one) if isinstance(one, frozenset) else one for name, one in facts}


def reusable_shards(
    keys: Sequence[str | None], shards: Sequence[dict[str, Json]]
) -> list[dict[str, Json]]:
    """The pieces of a result, for run.json: of each shard its key and what came of it."""
    counted = [name for name in Counts().to_document() if name != "first_rejects"]
    return [
        {
            "key": key,
            "inputs": len(shard["inputs"]),
            "parts": len(shard["parts"]),
            "rejected_parts": len(shard["rejected_parts"]),
            "counts": {name: shard[name] for name in counted},
        }
        for key, shard in zip(keys, shards, strict=True)
    ]


def former_shards(former: FinishedResult | None, identity: RunIdentity) -> dict[str, FormerShard]:
    """The shards of a finished result that a run may take over, by their keys.

    None are given where the result was made by another mapping, other options or another version,
    or where its run.json does not fit its manifest.
    """
    if former is None or not _is_alike(former.manifest, identity):
        return {}
    try:
        pieces = dict(_parse_former(former))
        fits = _adds_up(former, list(pieces.values()))
    except (KeyError, TypeError, ValueError, AttributeError):  # run.json is nobody's promise
        return {}
    return {key: piece for key, piece in pieces.items() if key} if fits else {}


def _is_alike(there: dict[str, Json], identity: RunIdentity) -> bool:
    """Whether the result was made the same way, but for the tokenizer, and of all rows."""
    ours, theirs = identity.settled, {name: there[name] for name in identity.settled}
    if not isinstance(theirs["options"], dict) or ours["options"]["limit"] is not None:
        return False
    ours, theirs = (
        {**one, "options": {**one["options"], "tokenizer": None}} for one in (ours, theirs)
    )
    return ours == theirs


def _parse_former(former: FinishedResult) -> Iterator[tuple[str, FormerShard]]:
    inputs = iter(former.manifest["inputs"])
    parts = {
        folder: iter(_folder_parts(former, folder)) for folder in (RECORDS_FOLDER, REJECTED_FOLDER)
    }
    for one in former.run[PIECES]:
        yield (
            one["key"] or "",
            FormerShard(
                folder=former.folder,
                counts=one["counts"],
                inputs=_take_entries(inputs, one["inputs"]),
                parts=_take_entries(parts[RECORDS_FOLDER], one["parts"]),
                rejected_parts=_take_entries(parts[REJECTED_FOLDER], one["rejected_parts"]),
            ),
        )


def _take_entries(entries: Iterator[dict[str, Json]], count: int) -> list[dict[str, Json]]:
    found = list(islice(entries, count))
    if len(found) != count:
        raise ValueError("fewer files than the shards have")
    return found


def _folder_parts(former: FinishedResult, folder: str) -> list[dict[str, Json]]:
    """The parts of a folder by number: 99999 before 100000."""
    own = [one for one in former.manifest["files"] if one["path"].startswith(f"{folder}/")]
    return sorted(own, key=lambda one: (len(PurePosixPath(one["path"]).stem), one["path"]))


def _adds_up(former: FinishedResult, pieces: Sequence[FormerShard]) -> bool:
    """Whether the pieces add up to what the manifest says."""
    manifest, counts = former.manifest, Counts()
    for piece in pieces:
        counts.add({**piece.counts, "first_rejects": []})
    records = sum(len(piece.parts) for piece in pieces)
    inputs = sum(len(piece.inputs) for piece in pieces)
    return (
        len(pieces) == len(former.run[PIECES])  # no key is there twice
        and records == len(_folder_parts(former, RECORDS_FOLDER))
        and inputs == len(manifest["inputs"])
        and {name: counts.rows[name] for name in ROW_COUNTS} == manifest["rows"]
        and {name: counts.records[name] for name in RECORD_COUNTS} == manifest["records"]
        and dict(counts.rejects) == manifest["rejects"]
        and dict(counts.meta) == manifest["warnings"]["meta"]
    )
