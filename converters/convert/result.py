"""The result of a conversion: counts and gates on them, identity, manifest, its parts numbered.

A mapping that nobody approved is stopped before the commit where a count passes the limit of a
gate; its staged parts stay. Who approves exactly these counts commits them without reading a row
again.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Lookup
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final, NotRequired, TypedDict, cast

from ingot import __version__
from ingot.converters.convert.options import ConvertOptions
from ingot.converters.convert.record_tokens import TokenCounts, tokenizer_facts
from ingot.converters.errors import ConversionError, CountsReviewNeeded, IngotError, OutputError
from ingot.converters.json_yaml import json_digest
from ingot.converters.mapping.check import MAX_UNREADABLE, MIN_COVERAGE
from ingot.converters.mapping.columns.executor import UnifiedTable
from ingot.converters.mapping.documents.writer import plain_document
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.executor import SOFT_REASONS, UnifiedBatch
from ingot.converters.mapping.rows.values import PathStats
from ingot.converters.mapping.signs import Found, SignRows, exceeds, sign_text
from ingot.converters.output.commit import StagedResult
from ingot.converters.output.difference import FinishedResult
from ingot.converters.output.files import FileEntry, InputEntry, is_store_url, output_errors
from ingot.converters.output.identity import RunIdentity
from ingot.converters.output.pieces import piece_name
from ingot.converters.records import RecordFormat
from ingot.converters.records.writers import part_name, part_shard, reject_text
from ingot.converters.rows import Batch, NonFinite, Reject, add_non_finite
from ingot.converters.sources import Source
from ingot.converters.sources.facts import absolute_location, hash_input, input_stamp
from ingot.converters.sources.storage.listing import LocalFile, RemoteFile
from ingot.converters.sources.storage.places import storage_places
from ingot.converters.sources.tables.table_folders import tables_read

RECORDS_FOLDER: Final = "records"
REJECTED_FOLDER: Final = "rejected"
SHOWN_REJECTS: Final = 3
VERSIONS: Final[dict[str, str | int]] = {"ingot": __version__, "format": 1}
ROW_COUNTS: Final = ("read", "converted", "rejected", "filtered")
RECORD_COUNTS: Final = ("written", "rejected", "filtered", "duplicates", "ragged")


# By gate the rows that a person approved; None: any number, as the sample shows them too.
Approved = Lookup[str, int | None]
_FAULTS: Final = "rejected"
_UNREADABLE: Final = "unreadable"


class CountsDocument(TypedDict):
    """`Counts` as JSON; `paths` holds looked up, missing and null of each path.

    And `data_uris` how many were taken out of the HTML at each.
    """

    rows: dict[str, int]
    records: dict[str, int]
    rejects: dict[str, int]
    meta: dict[str, int]
    paths: dict[str, list[int]]
    first_rejects: NotRequired[list[str]]
    non_finite: NotRequired[NonFinite]
    signs: NotRequired[dict[str, SignRows]]
    data_uris: NotRequired[dict[str, int]]


class ShardDocument(CountsDocument):
    """What came of a shard; its parts are named by their paths in the shard's folder."""

    inputs: list[InputEntry]
    parts: list[FileEntry]
    rejected_parts: list[FileEntry]
    seconds: float
    peak_rss: int
    taken_over: bool
    etags: dict[str, str]  # of the parts that are in an object store


class ManifestWarnings(TypedDict):
    """What people should know of a result: `meta` counts records, `paths` rows."""

    mapping: list[str]
    meta: dict[str, int]
    paths: dict[str, dict[str, int]]
    non_finite: NotRequired[NonFinite]
    signs: NotRequired[dict[str, SignRows]]
    data_uris: NotRequired[dict[str, int]]


class OptionsDocument(TypedDict):
    """The options that decide the bytes of a result."""

    records: RecordFormat
    language: str | None
    source: str
    limit: int | None
    tokenizer: dict[str, str | int | None] | None
    corpus: NotRequired[dict[str, object]]


class Manifest(TypedDict):
    """The manifest of a conversion, see schemas/manifest.schema.json."""

    decision: str
    mapping_sha256: str | None
    options: OptionsDocument
    versions: dict[str, str | int]
    reason: str | None
    inputs: list[InputEntry]
    left_out: list[dict[str, str]]
    rows: dict[str, int]
    records: dict[str, int]
    rejects: dict[str, int]
    warnings: ManifestWarnings
    tokens: TokenCounts | None
    files: NotRequired[list[FileEntry]]
    tables: NotRequired[list[dict[str, str | int]]]
    revision: NotRequired[str]


@dataclass(kw_only=True)
class Counts:
    """What came of the rows so far; adds up over shards."""

    rows: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    meta: Counter[str] = field(default_factory=Counter)
    paths: dict[str, list[int]] = field(default_factory=dict)
    first_rejects: list[str] = field(default_factory=list)
    non_finite: NonFinite | None = None
    signs: dict[str, SignRows] = field(default_factory=dict)
    data_uris: Counter[str] = field(default_factory=Counter)

    def add_outcome(self, unified: UnifiedBatch | UnifiedTable) -> None:
        """Count what became of some rows, but for the rejects."""
        self.rows["converted"] += unified.converted
        self.rows["rejected"] += unified.rejected
        self.rows["filtered"] += unified.filtered
        self.records["written"] += unified.written
        self.records["ragged"] += unified.ragged
        self.meta.update(unified.meta_failures)

    def add_rejects(self, rejects: list[Reject]) -> None:
        """Count rejects, in the order of the file."""
        for reject in rejects:
            if reject.reason == "filtered":
                self.records["filtered"] += 1
                continue
            self.records["rejected"] += 1
            self.rejects[reject.reason] += 1
            if len(self.first_rejects) < SHOWN_REJECTS:
                self.first_rejects.append(reject_text(replace(reject, found=None)))

    def add_signs(self, batch: Batch, rows_by_sign: Found) -> None:
        """Count the rows of a batch that have a sign; of a group all, as `rows` has them."""
        weights = dict(zip(batch.rows, batch.weights, strict=True)) if batch.weights else {}
        for sign, rows in rows_by_sign.items():
            first, count = min(rows), sum(weights.get(row, 1) for row in rows)
            entry: SignRows = {"rows": count, "file": batch.file, "row": first, "what": rows[first]}
            self.merge_signs({sign: entry})

    def merge_signs(self, later: dict[str, SignRows]) -> None:
        """Add the signs of later rows."""
        for sign, one in later.items():
            known = self.signs.setdefault(sign, {**one, "rows": 0})
            known["rows"] += one["rows"]

    def add_stats(self, stats: PathStats) -> None:
        """Add what the paths of a mapping gave."""
        self.add_paths(stats.counts)
        self.data_uris.update(stats.data_uris)

    def add_paths(self, paths: dict[str, list[int]]) -> None:
        """Add [looked up, missing, null] per path."""
        for path, counts in paths.items():
            known = self.paths.get(path, [0, 0, 0])
            self.paths[path] = [a + b for a, b in zip(known, counts, strict=True)]

    def add(self, shard: CountsDocument) -> None:
        """Add the counts of a shard, as `to_document` gave them."""
        self.rows.update(shard["rows"])
        self.records.update(shard["records"])
        self.rejects.update(shard["rejects"])
        self.meta.update(shard["meta"])
        self.add_paths(shard["paths"])
        self.non_finite = add_non_finite(self.non_finite, shard.get("non_finite"))
        self.merge_signs(shard.get("signs", {}))
        self.data_uris.update(shard.get("data_uris", {}))
        free_places = SHOWN_REJECTS - len(self.first_rejects)
        self.first_rejects += shard.get("first_rejects", [])[:free_places]

    def to_document(self) -> CountsDocument:
        """Return the counts as JSON, with sorted keys."""
        names = ("rows", "records", "rejects", "meta", "paths")
        document = {
            **{name: dict(sorted(getattr(self, name).items())) for name in names},
            "first_rejects": self.first_rejects,
            **self.rare_entries(),
        }
        return cast("CountsDocument", document)

    def rare_entries(self) -> dict[str, object]:
        """Return the entries that most results do not have."""
        entries = {
            "non_finite": self.non_finite,
            "signs": dict(sorted(self.signs.items())),
            "data_uris": dict(sorted(self.data_uris.items())),
        }
        return {name: one for name, one in entries.items() if one}


def check_counts(rows: Counter[str], location: str) -> None:
    """Hold the job to its accounting."""
    accounted = rows["converted"] + rows["rejected"] + rows["filtered"]
    if rows["read"] != accounted:
        problem = f"{rows['read']} rows read but {accounted} accounted for"
        raise ConversionError(location, problem, "this is a bug of ingot: please report it")


def refuse_all_rejected(counts: Counts, location: str) -> None:
    """Refuse a result without a single record where rows were rejected. Raises ConversionError."""
    rows = counts.rows
    if rows["converted"] or not rows["rejected"]:
        return
    top = ", ".join(f"{reason} {count}" for reason, count in counts.rejects.most_common(3))
    filtered = f", {rows['filtered']} filtered" if rows["filtered"] else ""
    problem = f"every row was rejected ({rows['read']} read{filtered}): {top}"
    first = "".join(f"\n  {text}" for text in counts.first_rejects)
    hint = "check the mapping against the source to see what it finds"
    raise ConversionError(location, f"{problem}{first}\n ", hint)


def refuse_unapproved(
    counts: Counts, approved: Approved | None, location: str, *, documents: bool
) -> dict[str, int]:
    """Stop where a gate's limit is passed by more rows than a person approved; return what was.

    Raises CountsReviewNeeded, whose counts are to be approved.
    """
    if approved is None:  # a person answers for the mapping
        return {}
    passed = {name: (rows, text) for name, rows, text in _passed_gates(counts, documents=documents)}
    beyond = [
        name
        for name, (rows, _) in passed.items()
        if (limit := approved.get(name, 0)) is not None and rows > limit
    ]
    row_counts = {name: rows for name, (rows, _) in passed.items()}
    if not beyond:
        return row_counts
    texts = "; ".join(passed[name][1] for name in beyond)
    problem = f"a gate on all {counts.rows['read']:,} rows stops it: {texts}"
    raise CountsReviewNeeded(location, problem, "", row_counts)


def _passed_gates(counts: Counts, *, documents: bool) -> Iterator[tuple[str, int, str]]:
    """Each gate whose limit is passed: its name, the count, and what people read of it."""
    written = counts.records["written"]
    for name, counted in counts.signs.items():
        if exceeds(name, counted["rows"], counts.rows["converted"], documents=documents):
            yield name, counted["rows"], sign_text(name, counted)
    unreadable = counts.rejects["bad_row"] + counts.rejects["bad_json"]
    if unreadable > MAX_UNREADABLE * counts.rows["read"]:
        text = f"{unreadable:,} rows cannot be read (limit: {MAX_UNREADABLE:.0%})"
        yield _UNREADABLE, unreadable, text
    soft = sum(counts.rejects[reason] for reason in SOFT_REASONS)
    faults = counts.records["rejected"] - unreadable - soft
    tried = written + faults + soft + counts.records["filtered"]
    if faults > (1 - MIN_COVERAGE) * tried:
        text = f"{faults:,} of {tried:,} records were rejected (limit: {1 - MIN_COVERAGE:.0%})"
        yield _FAULTS, faults, text


def conversion_identity(
    source: Source, decision: str, mapping_sha256: str | None, options: OptionsDocument
) -> RunIdentity:
    """Return what decides the bytes of a conversion."""

    def inputs_difference(finished: FinishedResult) -> str | None:
        known = finished.manifest.get("inputs") or []
        if [(i["name"], i["bytes"]) for i in known] != [(f.name, f.bytes) for f in source.files]:
            return "other files"
        if identity.has_equal_stamps(finished) or _has_same_content(source, known):
            return None
        return "other content of the files"

    location = absolute_location(source.location)
    files = [input_stamp(file) for file in source.files]
    shows_changes = all(file.mtime_ns is not None or file.etag is not None for file in source.files)
    identity = RunIdentity(
        settled={
            "decision": decision,
            "mapping_sha256": mapping_sha256,
            "options": options,
            "versions": VERSIONS,
        },
        place=[location, files],
        stamps=files if shows_changes else None,
        location=location,
        words={"options.tokenizer": "another tokenizer"},
        further=inputs_difference,
    )
    return identity


def _has_same_content(source: Source, known: list[InputEntry]) -> bool:
    """Whether the files that were read hold what they held; unread ones are known by size."""
    pairs = zip(known, source.files, strict=True)
    try:
        return all(
            entry["sha256"] == hash_input(file)
            for entry, file in pairs
            if entry["sha256"] is not None
        )
    except IngotError:
        return False  # the conversion will say what is wrong with the file


def check_apart(source: Source, out: Path | str) -> None:
    """Refuse to replace a folder by what is made of its own files. Raises OutputError."""
    top = str(out).rstrip("/") if is_store_url(out) else str(Path(out).resolve())
    # Of folders: they hold many files.
    real, inside = cache(os.path.realpath), cache(lambda one: Path(one).is_relative_to(top))
    for file in source.files:
        paths = (
            _real_path(one.path, real) if isinstance(one, LocalFile) else str(one)
            for one in storage_places(file.place)
        )
        if any(one == top or inside(one.rpartition("/")[0]) for one in paths):
            problem = f"holds a file of the source: {file.name}"
            raise OutputError(str(out), problem, "choose a destination outside the source")


def _real_path(path: str, real: Callable[[str], str]) -> str:
    if os.path.islink(path):  # noqa: PTH114 - a Path takes longer than the look
        return os.path.realpath(path)
    folder, name = os.path.split(path)
    return f"{real(folder).rstrip('/')}/{name}"


def options_document(options: ConvertOptions, source_name: str) -> OptionsDocument:
    """Return the options that decide bytes, as the manifest holds them."""
    return {
        "records": options.records,
        "language": options.language,
        "source": options.source_name or source_name,
        "limit": options.limit,
        "tokenizer": tokenizer_facts(options.tokenizer) if options.tokenizer else None,
    }


def mapping_sha256(mapping: Mapping) -> str:
    """Return the hash of what a mapping says; its `provenance` does not count."""
    return json_digest(plain_document(mapping))


def build_manifest(
    identity: RunIdentity,
    source: Source,
    counts: Counts,
    *,
    inputs: Iterable[InputEntry] = (),
    reason: str | None = None,
    mapping_warnings: Iterable[str] = (),
    tokens: TokenCounts | None = None,
) -> Manifest:
    """Return the manifest but for `files`."""
    read = {entry["name"]: entry for entry in inputs}
    manifest: dict[str, object] = {
        **identity.settled,
        "reason": reason,
        "inputs": [
            read.get(file.name) or {"name": file.name, "bytes": file.bytes, "sha256": None}
            for file in source.files
        ],
        "left_out": [{"name": file.name, "reason": file.why} for file in source.left_out],
        "rows": {name: counts.rows[name] for name in ROW_COUNTS},
        "records": {name: counts.records[name] for name in RECORD_COUNTS},
        "rejects": dict(counts.rejects),
        "warnings": _warnings(counts, mapping_warnings),
        "tokens": tokens,
    }
    if tables := tables_read(file.place for file in source.files):
        manifest["tables"] = [asdict(one) for one in tables]
    for location in (one for file in source.files for one in storage_places(file.place)):
        if isinstance(location, RemoteFile) and location.commit:
            manifest["revision"] = location.commit
    return cast("Manifest", manifest)


def _warnings(counts: Counts, mapping_warnings: Iterable[str]) -> dict[str, object]:
    return {
        "mapping": list(mapping_warnings),
        "meta": dict(counts.meta),
        "paths": {
            path: {"looked_up": looked_up, "missing": missing, "null": null}
            for path, (looked_up, missing, null) in counts.paths.items()
            if missing or null
        },
        **counts.rare_entries(),
    }


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a result as its manifest lists them: path, bytes, sha256, in order."""

    records: list[FileEntry] = field(default_factory=list)
    rejected: list[FileEntry] = field(default_factory=list)

    def next_rejects(self) -> str:
        """Return the path of a further part of rejects: what the tokenizer refuses."""
        last = part_shard(PurePosixPath(self.rejected[-1]["path"]).name) if self.rejected else -1
        return f"{REJECTED_FOLDER}/{part_name(last + 1, 'jsonl')}"


def number_parts(staged: StagedResult, shards: list[ShardDocument]) -> Parts:
    """Move the parts of all shards into the result, under their final names."""
    with output_errors(staged.out):
        for folder in (RECORDS_FOLDER, REJECTED_FOLDER):
            (staged.result / folder).mkdir(exist_ok=True)
    final_parts = Parts()
    for number, shard in enumerate(shards):
        etags = shard.get("etags", {})
        for entries, parts in (
            (final_parts.records, shard["parts"]),
            (final_parts.rejected, shard["rejected_parts"]),
        ):
            for part, name in final_names(number, parts):
                staged.take_part(piece_name(number), part["path"], name, etags.get(name))
                entries.append({**part, "path": name})
    return final_parts


def final_names(shard: int, parts: Iterable[FileEntry]) -> Iterator[tuple[FileEntry, str]]:
    """Yield each of the parts of a shard with the name that it has in the result."""
    for index, part in enumerate(parts):
        path = PurePosixPath(part["path"])
        name = part_name(shard, path.suffix.lstrip("."), index)
        yield part, path.with_name(name).as_posix()
