"""zz_counts.

`manifest.json` and `run.json` of a result: what was made, and how the run went.
What the shards left, put together to one result: parts numbered through, tokens, manifest.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingot import __version__
from ingot.converters.errors import ConversionError, IngotError, SourceError
from ingot.converters.mapping.columns.executor import UnifiedTable
from ingot.converters.mapping.language import Mapping, to_document
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.output.commit import FinishedResult, StagedResult, output_errors
from ingot.converters.output.result_files import list_files
from ingot.converters.progress import host_facts
from ingot.converters.records.rejects import part_name, reject_text
from ingot.converters.rows import Json, Reject
from ingot.converters.sources import Source, SourceFile

if TYPE_CHECKING:
    from ingot.converters.megatron.metrics.messages import Monitor

# ---body---
RECORDS_FOLDER = "records"


REJECTED_FOLDER = "rejected"


_HASH_BLOCK = 1 << 20


def shard_name(number: int) -> str:
    """The name of a finished shard's folder."""
    return f"{number:06d}"


@dataclass(kw_only=True)
class Counts:
    """What came of the rows so far; adds up over shards."""

    rows: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    meta: Counter[str] = field(default_factory=Counter)
    paths: dict[str, list[int]] = field(default_factory=dict)
    first_rejects: list[str] = field(default_factory=list)

    def add_batch(self, unified: UnifiedBatch | UnifiedTable, rejects: list[Reject]) -> None:
        """Count one batch and its rejects, in the order of the file."""
        self.rows["converted"] += unified.converted
        self.rows["rejected"] += unified.rejected
        self.rows["filtered"] += unified.filtered
        self.records["written"] += unified.written
        self.records["ragged"] += unified.ragged
        self.meta.update(unified.meta_failures)
        for reject in rejects:
            if reject.reason == "filtered":
                self.records["filtered"] += 1
                continue
            self.records["rejected"] += 1
            self.rejects[reject.reason] += 1
            if len(self.first_rejects) < SHOWN_REJECTS:
                self.first_rejects.append(reject_text(reject))

    def add_paths(self, paths: dict[str, list[int]]) -> None:
        """Add [looked up, missing, null] per path."""
        for path, counts in paths.items():
            known = self.paths.get(path, [0, 0, 0])
            self.paths[path] = [a + b for a, b in zip(known, counts, strict=True)]

    def add(self, shard: dict[str, Json]) -> None:
        """Add the counts of a shard, as `to_document` gave them."""
        self.rows.update(shard["rows"])
        self.records.update(shard["records"])
        self.rejects.update(shard["rejects"])
        self.meta.update(shard["meta"])
        self.add_paths(shard["paths"])
        room = SHOWN_REJECTS - len(self.first_rejects)
        self.first_rejects += shard["first_rejects"][:room]

    def to_document(self) -> dict[str, Json]:
        """The counts as JSON, in the order in which a file of sorted keys gives them back."""
        return {
            "rows": dict(sorted(self.rows.items())),
            "records": dict(sorted(self.records.items())),
            "rejects": dict(sorted(self.rejects.items())),
            "meta": dict(sorted(self.meta.items())),
            "paths": dict(sorted(self.paths.items())),
            "first_rejects": self.first_rejects,
        }


def input_sha256(source: Source, file: SourceFile) -> str:
    """The SHA-256 of an input file's bytes as stored, streamed."""
    digest = hashlib.sha256()
    size = 0
    with source.open_raw(file) as stream:
        while block := stream.read(_HASH_BLOCK):
            digest.update(block)
            size += len(block)
    if file.bytes and size != file.bytes:
        problem = f"changed while it was read: {size} bytes now, {file.bytes} before"
        raise SourceError(file.name, problem, "run again when nothing writes to it")
    return digest.hexdigest()


def check_counts(rows: Counter[str], where: str) -> None:
    """Hold the job to its accounting."""
    accounted = rows["converted"] + rows["rejected"] + rows["filtered"]
    if rows["read"] != accounted:
        problem = f"{rows['read']} rows read but {accounted} accounted for"
        raise ConversionError(where, problem, "this is a bug of ingot: please report it")


SHOWN_REJECTS = 3


FORMAT: Final = 1
VERSIONS: Final[dict[str, Json]] = {"ingot": __version__, "format": FORMAT}
ROW_COUNTS: Final = ("read", "converted", "rejected", "filtered")
RECORD_COUNTS: Final = ("written", "rejected", "filtered", "duplicates", "ragged")


@dataclass(frozen=True, kw_only=True)
class ConversionIdentity:
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
        return _json_digest(
            [
                source_place(self.source),
                [file_stamp(file) for file in self.source.files],
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

    def difference(self, there: FinishedResult) -> str | None:
        """What tells a finished result from the one that this run would make; None if nothing does.

        Inputs are equal where place, names, sizes and times of change are, else by content.
        """
        for key, ours in self._settled().items():
            theirs = there.manifest.get(key)
            if theirs != ours:
                return _DIFFERENCES[key].format(_changed_keys(theirs, ours))
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


def _changed_keys(theirs: Json, ours: Json) -> str:
    """The keys under which two objects differ."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return ""
    return ", ".join(key for key in ours if theirs.get(key) != ours[key])


def _json_digest(document: Json) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def mapping_sha256(mapping: Mapping) -> str:
    """The hash of what a mapping says; where it came from (`provenance`) does not count."""
    document = to_document(mapping)
    document.pop("provenance", None)
    return _json_digest(document)


def source_place(source: Source) -> str:
    """Where a source lies, the same from whatever folder it is named; a URL as it is."""
    location = source.location
    return location if "://" in location else str(Path(location).absolute())


def file_stamp(file: SourceFile) -> dict[str, Json]:
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
        "location": source_place(source),
        "files": [file_stamp(file) for file in source.files],
    }


def build_manifest(
    identity: ConversionIdentity,
    counts: Counts,
    *,
    inputs: Iterable[dict[str, Json]] = (),
    reason: str | None = None,
    mapping_warnings: Iterable[str] = (),
    tokens: dict[str, Json] | None = None,
) -> dict[str, Json]:
    """The manifest but for `files`, which `list_files` gives once all are written."""
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
        "rows": {name: counts.rows[name] for name in ROW_COUNTS},
        "records": {name: counts.records[name] for name in RECORD_COUNTS},
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


TOKENS: Final = "tokens"
TOKEN_FACTS: Final = (
    "documents",
    "sequences",
    "tokens",
    "characters",
    "rejected",
    "dtype",
    "eod_id",
    "vocabulary",
)
_NAME_BYTES = 100


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a result as its manifest lists them: path, bytes, sha256, in order."""

    records: list[dict[str, Json]]
    rejected: list[dict[str, Json]]


def number_parts(staged: StagedResult, shards: list[dict[str, Json]]) -> Parts:
    """Move the parts of all shards into the result, numbered through in the order of the shards."""
    with output_errors(staged.out):
        return Parts(
            records=_number_folder(staged, shards, "parts", RECORDS_FOLDER),
            rejected=_number_folder(staged, shards, "rejected_parts", REJECTED_FOLDER),
        )


def _number_folder(
    staged: StagedResult, shards: list[dict[str, Json]], kind: str, folder: str
) -> list[dict[str, Json]]:
    (staged.result / folder).mkdir(exist_ok=True)
    entries: list[dict[str, Json]] = []
    for number, shard in enumerate(shards):
        for part in shard[kind]:
            there = staged.work / shard_name(number) / part["path"]
            name = f"{folder}/{part_name(len(entries), there.suffix.lstrip('.'))}"
            entries.append({**part, "path": name})
            # A run that was killed in here had moved some of them already.
            if there.exists():
                there.rename(staged.result / name)
    return entries


def make_tokens(
    staged: StagedResult, parts: Parts, tokenizer: str, name: str, monitor: "Monitor"
) -> dict[str, Json] | None:
    """Make `tokens/NAME.bin|.idx|.meta.json` of the record parts; None if there is no record.

    Conversations also give `NAME.loss_mask.bin|.idx`. Records that the tokenizer refuses are listed
    in a reject part of their own. What a run that was killed had tokenized is gone on with.
    """
    from ingot.converters import megatron

    if not parts.records:
        return None
    files = megatron.stamp_files(staged.result / entry["path"] for entry in parts.records)
    stats = megatron.build(
        files,
        tokenizer,
        staged.result / TOKENS / name,
        megatron.BuildOptions(append_eod=True),
        megatron.WorkOptions(resume=True, overwrite=True, tmp_dir=staged.work),
        beside=megatron.SideFiles(
            rejects=staged.result / REJECTED_FOLDER / part_name(len(parts.rejected), "jsonl"),
            run=staged.work / "tokens.run.json",
        ),
        monitor=monitor,
    )
    return {fact: getattr(stats, fact) for fact in TOKEN_FACTS}


def tokenizer_facts(given: str) -> dict[str, Json]:
    """What a manifest says of a tokenizer.

    It is loaded before anything is converted, so that an unfit one is not found out at the end.
    """
    from ingot.converters.megatron.chat.templates import load_template
    from ingot.converters.megatron.tokenizer.tokenizer import find_eod, load_tokenizer

    loaded = load_tokenizer(given)
    return {
        "file": loaded.path.name,
        "sha256": loaded.sha256,
        "eod_id": find_eod(loaded),
        "chat_template": load_template(None, loaded).sha256,
    }


def tokens_name(source_name: str) -> str:
    """A file name for the data set: the source's name, odd characters replaced by `_`."""
    name = re.sub(r"[^\w.-]+", "_", source_name).strip("._")
    cut = name.encode("utf-8", "ignore")[:_NAME_BYTES].decode("utf-8", "ignore")
    return cut or TOKENS


def commit_result(
    staged: StagedResult,
    identity: ConversionIdentity,
    manifest: dict[str, Json],
    run: dict[str, Json],
    *,
    files: dict[str, bytes],
    parts: Parts | None = None,
) -> dict[str, Json]:
    """Write the small files, complete manifest (in place) and run, and commit; gives the run."""
    known = [*parts.records, *parts.rejected] if parts else []
    with output_errors(staged.out):
        for name, content in files.items():
            (staged.result / name).write_bytes(content)
        manifest["files"] = list_files(staged.result, known)
    run = {
        **run,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": host_facts(),
        "inputs": input_stamps(identity.source),
        "notes": list(staged.notes),
    }
    staged.commit(manifest, run)
    return run
