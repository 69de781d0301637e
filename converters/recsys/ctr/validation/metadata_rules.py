"""The rules on vocabularies, stats.json and manifest.json."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.json_yaml import find_json, load_json
from ingot.converters.output.files import MANIFEST, hash_file
from ingot.converters.recsys.ctr import contract
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap
from ingot.converters.recsys.ctr.validation import processed_folder
from ingot.converters.recsys.ctr.validation.findings import BatchStart, Findings, Mask, Place
from ingot.converters.recsys.ctr.validation.processed_folder import Part, SplitCounts, parquet_type

COLUMNS: Final = {"token": pa.string(), "count": pa.int64(), "id": pa.int64()}
_RULE: Final = "R7.3"


@dataclass(frozen=True, kw_only=True)
class VocabularyCounts:
    """What the vocabulary of a feature holds."""

    distinct: int
    kept: int  # those that have an id of their own; 0 for a hash
    occurrences: int
    occurrences_kept: int


def check_vocabularies(
    root: Path, featuremap: FeatureMap, findings: Findings
) -> dict[str, VocabularyCounts]:
    """Check `vocab/` of a processed folder."""
    known = {}
    for feature in featuremap.features:
        name = f"{processed_folder.VOCAB_FOLDER}/{feature.name}.parquet"
        part = Part(split=processed_folder.VOCAB_FOLDER, path=root / name, name=name)
        before = findings.counts[_RULE]
        try:
            vocabulary_counts = _check_vocabulary(part, feature, featuremap, findings)
        except SourceError as error:
            findings.add(_RULE, Place(file=name, found=error.problem))
            continue
        if vocabulary_counts and findings.counts[_RULE] == before:
            known[feature.name] = vocabulary_counts
    return known


def _check_vocabulary(
    part: Part, feature: Feature, featuremap: FeatureMap, findings: Findings
) -> VocabularyCounts | None:
    """Check the vocabulary of a feature; its tokens are in memory."""
    schema = processed_folder.read_schema(part)
    types = {one.name: parquet_type(one.type) for one in schema}
    if types != COLUMNS or len(schema.names) != len(COLUMNS):
        columns_text = ", ".join(f"{one.name} {one.type}" for one in schema)
        expected_text = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        findings.add(
            _RULE, Place(file=part.name, found=f"columns {columns_text}, not {expected_text}")
        )
        return None

    def note(column: str, mask: Mask, describe: Callable[[int], str]) -> None:
        findings.rows(_RULE, BatchStart(file=part.name, row=0), column, mask, describe)

    with translate_read_errors(part.name, "cannot be read"):
        columns = pq.read_table(part.path)
        tokens = columns["token"].cast(pa.large_binary()).combine_chunks()
    for name in COLUMNS:
        null = columns[name].is_null().to_numpy()
        note(name, null, lambda _: "null")
        if null.any():
            return None
    counts, ids = columns["count"].to_numpy(), columns["id"].to_numpy()
    ranks = np.arange(len(counts), dtype=np.int64)
    note("count", counts < 1, lambda i: f"{counts[i]}, at least 1")
    # Counts fall; where they are equal, tokens rise.
    rises = pc.greater(tokens[1:], tokens[:-1]).to_numpy(zero_copy_only=False)
    later, earlier = counts[1:], counts[:-1]
    unordered = np.zeros(len(counts), np.bool_)
    unordered[1:] = (later > earlier) | ((later == earlier) & ~rises)
    note("token", unordered, lambda i: f"{_token_text(tokens[i])} out of order")
    wanted_ids = contract.ids_of(feature, featuremap, tokens, ranks)
    said_id = "{}, not {}: {}".format
    note("id", ids != wanted_ids, lambda i: said_id(ids[i], wanted_ids[i], _token_text(tokens[i])))
    if pc.count_distinct(tokens).as_py() < len(tokens):
        repeated = pc.index_in(tokens, tokens).to_numpy() != ranks
        note("token", repeated, lambda i: f"{_token_text(tokens[i])} twice")
    kept = min(len(counts), feature.vocab_num_tokens or 0)
    return VocabularyCounts(
        distinct=len(counts),
        kept=kept,
        occurrences=int(counts.sum()),
        occurrences_kept=int(counts[:kept].sum()),
    )


def _token_text(token: pa.LargeBinaryScalar) -> str:
    return repr(token.as_py().decode("utf-8", "replace"))


_STATS, _MANIFEST = "R7.4", "R7.5"
_Figures = Iterator[tuple[tuple[str, ...], int]]


def _read_document(
    root: Path, name: str, rule: str, findings: Findings
) -> dict[str, object] | None:
    try:
        return load_json(root / name)
    except FileNotFoundError:
        findings.add(rule, Place(file=name, found="no such file"))
    except (OSError, ValueError) as error:
        findings.add(rule, Place(file=name, found=f"cannot be read: {error}"))
    return None


def check_stats(
    root: Path,
    counts: dict[str, SplitCounts],
    entities: dict[str, int],
    vocabularies: dict[str, VocabularyCounts],
    findings: Findings,
) -> None:
    """Check that stats.json adds up, and that its figures are those of the files."""
    stats = _read_document(root, processed_folder.STATS, _STATS, findings)
    if stats is None:
        return
    figures = list(_row_figures(counts, entities))
    if (find_json(root / MANIFEST) or {}).get("vocab_sha256") is None:
        # Fitted on this data: saved vocabularies have other tokens too.
        for name, one in vocabularies.items():
            figures += [(("vocab", name, key), count) for key, count in asdict(one).items()]
    for path, right in figures:
        _compare(stats, path, right, "the files have", findings)
    # What has to add up in stats.json itself, and the lines of the rejects.
    rows = stats.get("rows")
    parts = ("train", "valid", "rejected", "dropped")
    _compare(
        stats, ("rows", "read"), _add_counts(rows, parts), f"{' + '.join(parts)} are", findings
    )
    rejected, common = _add_counts(stats.get("rejects")), _add_counts(stats.get("common_rejects"))
    _compare(stats, ("rows", "rejected"), rejected, "the reasons under rejects are", findings)
    rejects, lines = root / processed_folder.REJECTS, 0
    if rejects.is_file():
        with rejects.open("rb") as stream:
            lines = sum(1 for _ in stream)
    if lines != rejected + common:
        problem = f"{lines} lines, stats.json has {rejected} rejects and {common} common_rejects"
        findings.add(_STATS, Place(file=processed_folder.REJECTS, found=problem))


def _compare(
    stats: dict[str, object], path: tuple[str, ...], right: int, source: str, findings: Findings
) -> None:
    value: object = stats
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or value != right:
        problem = f"{'.'.join(path)}: {json.dumps(value, ensure_ascii=False)}, {source} {right}"
        findings.add(_STATS, Place(file=processed_folder.STATS, found=problem))


def _row_figures(counts: dict[str, SplitCounts], entities: dict[str, int]) -> _Figures:
    for split, count in counts.items():
        yield ("rows", split), count.rows
        prefix = ("splits", split)
        yield (*prefix, "rows"), count.rows
        for name, positives in count.labels.items():
            yield (*prefix, name), positives
        yield (*prefix, "funnel_anomalies"), count.funnel_anomalies
        for name, feature in count.features.items():
            keys = ("missing", "tokens", "oov", "tail")
            for key in keys if feature.tail_ids == "disjoint" else keys[:-1]:
                yield (*prefix, "features", name, key), getattr(feature, key)
    for split, distinct in entities.items():
        yield ("entities", split), distinct


def _add_counts(counts: object, names: Iterable[str] | None = None) -> int:
    """Add the counts of these names, or of all; what is not a count is 0."""
    if not isinstance(counts, dict):
        return 0
    values = (counts.get(name) for name in (counts if names is None else names))
    return sum(count for count in values if isinstance(count, int))


def check_manifest(root: Path, findings: Findings) -> None:
    """Check that manifest.json lists the folder's files with their bytes and SHA-256."""
    manifest = _read_document(root, MANIFEST, _MANIFEST, findings)
    if manifest is None:
        return
    entries = manifest.get("files")
    listed = {}
    for entry in entries if isinstance(entries, list) else []:
        name = entry.get("path") if isinstance(entry, dict) else None
        if isinstance(name, str) and _is_inside(name):
            listed[name] = entry
        else:
            findings.add(_MANIFEST, Place(file=MANIFEST, found=f"no file of the folder: {entry}"))
    for name, entry in listed.items():
        if difference := _file_difference(root / name, entry):
            findings.add(_MANIFEST, Place(file=name, found=difference))
    for name in _own_files(root):
        if name not in listed:
            findings.add(_MANIFEST, Place(file=name, found=f"{MANIFEST} does not list it"))


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _file_difference(path: Path, entry: dict[str, object]) -> str:
    """What is not as the manifest says, or nothing."""
    try:
        if (size := path.stat().st_size) != entry.get("bytes"):
            return f"{size} bytes, {MANIFEST} says {entry.get('bytes')}"
        digest = hash_file(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if digest == entry.get("sha256") else f"{MANIFEST} says another SHA-256"


def _own_files(root: Path) -> Iterator[str]:
    """Files that a build writes into a folder, without the two that list the others."""
    for part in (*contract.SPLITS, processed_folder.VOCAB_FOLDER):
        for path in sorted((root / part).glob("*.parquet")):
            if path.name[0] != ".":
                yield f"{part}/{path.name}"
    for name in (processed_folder.FEATUREMAP, processed_folder.STATS, processed_folder.REJECTS):
        if (root / name).is_file():
            yield name
