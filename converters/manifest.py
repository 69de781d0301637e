"""`manifest.json` and `run.json` of a result: what was made, and how the run went.

The manifest is a function of input, mapping, options and version: no times, no places, keys sorted.

    decision         pt | sft | irrelevant
    reason           why, where it is irrelevant; else null
    versions         {"ingot": version, "format": version of this layout}
    mapping_sha256   of the mapping as JSON with sorted keys, `provenance` left out; or null
    options          records, language, source, limit, tokenizer {file, sha256, eod_id,
                     chat_template} or null
    inputs           [{name, bytes, sha256}] in reading order; sha256 of the bytes as stored, null
                     where a limit or the decision kept the file from being read to its end
    left_out         [{name, reason}] files of the source that are no data
    rows             {read, converted, rejected, filtered}: read is the sum of the others
    records          {written, rejected, filtered, duplicates, ragged}: duplicates are records
                     dropped as such, which a conversion never does
    rejects          {reason: records}, most frequent first in the report; `filtered` is none
    warnings         {"mapping": [text], "meta": {"key: reason": count},
                     "paths": {path: {looked_up, missing, null}} where something was missing or
                     null}
    tokens           {documents, sequences, tokens, characters, rejected, dtype, eod_id, vocabulary}
                     or null
    files            [{path, bytes, sha256}] of every file but manifest.json and run.json, sorted

`run.json` holds the rest: when, how long, on what, how much memory, what was sent to a model.
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ingot import __version__
from ingot.converters.commit import MANIFEST, RUN, Finished
from ingot.converters.errors import IngotError, SourceError
from ingot.converters.language import Mapping, to_document
from ingot.converters.readers import Source, SourceFile
from ingot.converters.rows import Json
from ingot.converters.shard import Counts, file_entry, input_sha256

FORMAT: Final = 1
VERSIONS: Final[dict[str, Json]] = {"ingot": __version__, "format": FORMAT}
ROWS: Final = ("read", "converted", "rejected", "filtered")
RECORDS: Final = ("written", "rejected", "filtered", "duplicates", "ragged")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What decides the bytes of a result: two runs with equal identities make the same one.

    Attributes:
        source: the opened source.
        decision: pt, sft or irrelevant.
        mapping_sha256: None where nothing is mapped.
        options: as the manifest holds them.
    """

    source: Source
    decision: str
    mapping_sha256: str | None
    options: dict[str, Json]

    def key(self) -> str:
        """The staging key: knows the inputs by place, name, size and time of change."""
        return _digest(
            [
                place(self.source),
                [stamp(file) for file in self.source.files],
                self._settled(),
            ]
        )

    def _settled(self) -> dict[str, Json]:
        return {
            "decision": self.decision,
            "mapping_sha256": self.mapping_sha256,
            "options": self.options,
            "versions": VERSIONS,
        }

    def difference(self, there: Finished) -> str | None:
        """What tells a finished result from the one that this run would make; None if nothing does.

        Inputs are equal where place, names, sizes and times of change are, else by content.
        """
        for key, ours in self._settled().items():
            theirs = there.manifest.get(key)
            if theirs != ours:
                return _DIFFERENCES[key].format(_changed(theirs, ours))
        files = self.source.files
        inputs = there.manifest.get("inputs") or []
        if [(i["name"], i["bytes"]) for i in inputs] != [(f.name, f.bytes) for f in files]:
            return "other files"
        if there.run.get("inputs") == input_stamps(self.source) or self._same_content(inputs):
            return None
        return "other content of the files"

    def _same_content(self, inputs: list[dict[str, Json]]) -> bool:
        """Whether the files that were read hold what they held; unread ones are known by size."""
        pairs = zip(inputs, self.source.files, strict=True)
        try:
            return all(
                known["sha256"] == input_sha256(self.source, file)
                for known, file in pairs
                if known["sha256"] is not None
            )
        except IngotError:
            return False  # the conversion will say what is wrong with the file


_DIFFERENCES = {
    "decision": "another decision",
    "mapping_sha256": "another mapping",
    "options": "other options ({})",
    "versions": "another version of ingot",
}


def _changed(theirs: Json, ours: Json) -> str:
    """The keys under which two objects differ."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return ""
    return ", ".join(key for key in ours if theirs.get(key) != ours[key])


def _digest(document: Json) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def mapping_sha256(mapping: Mapping) -> str:
    """The hash of what a mapping says; where it came from (`provenance`) does not count."""
    document = to_document(mapping)
    document.pop("provenance", None)
    return _digest(document)


def place(source: Source) -> str:
    """Where a source lies, the same from whatever folder it is named; a URL as it is."""
    location = source.location
    return location if "://" in location else str(Path(location).absolute())


def stamp(file: SourceFile) -> dict[str, Json]:
    """What tells a file from a changed one without reading it."""
    return {
        "name": file.name,
        "bytes": file.bytes,
        "mtime_ns": file.mtime_ns,
        "etag": file.etag,
    }


def input_stamps(source: Source) -> dict[str, Json] | None:
    """Place and stamps of a source, as run.json holds them; None where a stamp says nothing."""
    if any(file.mtime_ns is None and file.etag is None for file in source.files):
        return None
    return {
        "location": place(source),
        "files": [stamp(file) for file in source.files],
    }


def build(
    identity: Identity,
    counts: Counts,
    *,
    inputs: Iterable[dict[str, Json]] = (),
    reason: str | None = None,
    mapping_warnings: Iterable[str] = (),
    tokens: dict[str, Json] | None = None,
) -> dict[str, Json]:
    """The manifest but for `files`, which `list_files` gives once all are written.

    Args:
        identity: what decides the result.
        counts: of all rows and records.
        inputs: name, bytes and sha256 of the files that were read; those it lacks were not.
        reason: why the source is irrelevant.
        mapping_warnings: what binding the mapping noticed.
        tokens: what the tokens stage made.
    """
    read = {entry["name"]: entry for entry in inputs}
    unread = {"sha256": None}
    return {
        "decision": identity.decision,
        "reason": reason,
        "versions": VERSIONS,
        "mapping_sha256": identity.mapping_sha256,
        "options": identity.options,
        "inputs": [
            read.get(file.name) or {"name": file.name, "bytes": file.bytes, **unread}
            for file in identity.source.files
        ],
        "left_out": [{"name": one.name, "reason": one.why} for one in identity.source.left_out],
        "rows": {name: counts.rows[name] for name in ROWS},
        "records": {name: counts.records[name] for name in RECORDS},
        "rejects": dict(counts.rejects),
        "warnings": _warnings(counts, mapping_warnings),
        "tokens": tokens,
    }


def _warnings(counts: Counts, mapping_warnings: Iterable[str]) -> dict[str, Json]:
    return {
        "mapping": list(mapping_warnings),
        "meta": dict(counts.meta),
        "paths": {
            path: {"looked_up": looked_up, "missing": missing, "null": null}
            for path, (looked_up, missing, null) in counts.paths.items()
            if missing or null
        },
    }


def list_files(folder: Path, known: Iterable[dict[str, Json]] = ()) -> list[dict[str, Json]]:
    """Path, bytes and SHA-256 of every file of a result but manifest.json and run.json, sorted.

    `known` are such entries made before, whose files are not hashed again.
    """
    entries = {entry["path"]: entry for entry in known}
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [
        entries.get(path.as_posix()) or file_entry(folder, path)
        for path in files
        if path.as_posix() not in (MANIFEST, RUN)
    ]


def check_unchanged(before: list[dict[str, Json]], after: list[dict[str, Json]]) -> None:
    """See that no input changed in between.

    Raises:
        SourceError: one did.
    """
    for one in (*before, *after):  # a file may be gone, or new
        if one not in before or one not in after:
            problem = "changed while it was read"
            raise SourceError(str(one["name"]), problem, "run again when nothing writes to it")


def host_facts() -> dict[str, Json]:
    """The machine and the libraries, as far as they can matter for speed or bytes."""
    import pyarrow as pa

    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "cores": os.cpu_count(),
    }
