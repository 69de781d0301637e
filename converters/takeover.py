"""Shards of a former result that are taken over instead of being converted again.

A result that replaces another one needs not convert what it would convert alike. `run.json` says of
each shard by which key it is known, and what came of it:

    pieces    [{key, inputs, parts, rejected_parts, counts}] in the order of the shards: how many of
              the manifest's inputs and parts are the shard's, in their order, and its counts; no
              text of a row

The key is a hash of the shard's files: names, sizes, times of change or etags, the source's place,
and all that was found out about how they are read. A shard is taken over where its key is that of a
shard of the former result, and mapping, options (but for the tokenizer, which comes later) and
version are the same. Its parts become part of the new result as hard links, or as copies where the
file system has no links; their SHA-256 is held against the former manifest first, and where it
differs the shard is converted. So the bytes of a result are those of a run into an empty folder.

Impossible: with a limit, since a shard then depends on those before it; where storage tells neither
a time of change nor an etag; after a change of the mapping, to which belong the facts about the
files that are guessed from all of them; for shards whose neighbours have changed so that files are
packed together in another way (`job.plan_shards`: files of 64 MiB and more are always alone).
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

from ingot.converters.commit import Finished
from ingot.converters.manifest import RECORDS as RECORD_COUNTS
from ingot.converters.manifest import ROWS, VERSIONS, Identity, place, stamp
from ingot.converters.pieces import Piece
from ingot.converters.readers import Source, SourceFile
from ingot.converters.rows import Json
from ingot.converters.shard import RECORDS, REJECTED, Counts

PIECES: Final = "pieces"


def key_of(source: Source, files: Sequence[SourceFile]) -> str | None:
    """What a shard is known by; None where a change of a file would not show."""
    if any(file.mtime_ns is None and file.etag is None for file in files):
        return None
    told = [[stamp(file), _facts(file)] for file in files]
    return hashlib.sha256(json.dumps([place(source), told]).encode()).hexdigest()


def _facts(file: SourceFile) -> dict[str, Json]:
    facts = asdict(file.facts).items()
    return {name: sorted(one) if isinstance(one, frozenset) else one for name, one in facts}


def told(keys: Sequence[str | None], shards: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
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


def former_pieces(former: Finished | None, identity: Identity) -> dict[str, Piece]:
    """The shards of a finished result that a run may take over, by their keys.

    None are given where the result was made by another mapping, other options or another version,
    or where its run.json does not fit its manifest.
    """
    if former is None or not _alike(former.manifest, identity):
        return {}
    try:
        pieces = dict(_pieces(former))
        fits = _fits(former, list(pieces.values()))
    except (KeyError, TypeError, ValueError, AttributeError):  # run.json is nobody's promise
        return {}
    return {key: piece for key, piece in pieces.items() if key} if fits else {}


def _alike(there: dict[str, Json], identity: Identity) -> bool:
    ours = {**identity.options, "tokenizer": None}
    theirs = there["options"]
    return (
        (there["decision"], there["mapping_sha256"], there["versions"])
        == (identity.decision, identity.mapping_sha256, VERSIONS)
        and isinstance(theirs, dict)
        and {**theirs, "tokenizer": None} == ours
        and ours["limit"] is None
    )


def _pieces(former: Finished) -> Iterator[tuple[str, Piece]]:
    inputs = iter(former.manifest["inputs"])
    parts = {folder: iter(_parts(former, folder)) for folder in (RECORDS, REJECTED)}
    for one in former.run[PIECES]:
        yield (
            one["key"] or "",
            Piece(
                folder=former.folder,
                counts=one["counts"],
                inputs=_next(inputs, one["inputs"]),
                parts=_next(parts[RECORDS], one["parts"]),
                rejected_parts=_next(parts[REJECTED], one["rejected_parts"]),
            ),
        )


def _next(entries: Iterator[dict[str, Json]], count: int) -> list[dict[str, Json]]:
    found = list(islice(entries, count))
    if len(found) != count:
        raise ValueError("fewer files than pieces say")
    return found


def _parts(former: Finished, folder: str) -> list[dict[str, Json]]:
    """The parts of a folder by number: 99999 before 100000."""
    own = [one for one in former.manifest["files"] if one["path"].startswith(f"{folder}/")]
    return sorted(own, key=lambda one: (len(PurePosixPath(one["path"]).stem), one["path"]))


def _fits(former: Finished, pieces: Sequence[Piece]) -> bool:
    """Whether the pieces add up to what the manifest says."""
    manifest, counts = former.manifest, Counts()
    for piece in pieces:
        counts.add({**piece.counts, "first_rejects": []})
    records = sum(len(piece.parts) for piece in pieces)
    inputs = sum(len(piece.inputs) for piece in pieces)
    return (
        len(pieces) == len(former.run[PIECES])  # no key is there twice
        and records == len(_parts(former, RECORDS))
        and inputs == len(manifest["inputs"])
        and {name: counts.rows[name] for name in ROWS} == manifest["rows"]
        and {name: counts.records[name] for name in RECORD_COUNTS} == manifest["records"]
        and dict(counts.rejects) == manifest["rejects"]
        and dict(counts.meta) == manifest["warnings"]["meta"]
    )
