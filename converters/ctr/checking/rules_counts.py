"""The rules on stats.json and manifest.json: they say what the files say."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ingot.converters.commit import MANIFEST, RUN
from ingot.converters.ctr import contract
from ingot.converters.ctr.checking import folder
from ingot.converters.ctr.checking.counting import FeatureCounts, SplitCounts
from ingot.converters.ctr.checking.findings import Findings, Place
from ingot.converters.ctr.checking.rules_vocab import Vocabulary
from ingot.converters.json_files import load_json
from ingot.converters.rows import Json

_STATS, _MANIFEST = "R7.4", "R7.5"
_Figures = Iterator[tuple[tuple[str, ...], int]]


def _document(root: Path, name: str, rule: str, found: Findings) -> dict[str, Json] | None:
    try:
        return load_json(root / name)
    except FileNotFoundError:
        found.add(rule, Place(file=name, found="no such file"))
    except (OSError, ValueError) as error:
        found.add(rule, Place(file=name, found=f"cannot be read: {error}"))
    return None


def check_stats(
    root: Path,
    counts: dict[str, SplitCounts],
    entities: dict[str, int],
    vocabularies: dict[str, Vocabulary],
    found: Findings,
) -> None:
    """Checks that stats.json adds up, and that its figures are those of the files.

    Args:
        root: the processed folder.
        counts: of the rows, by split.
        entities: distinct ones by split, of the splits where they are known.
        vocabularies: by feature, of those that are as they have to be.
        found: takes what is wrong.
    """
    stats = _document(root, folder.STATS, _STATS, found)
    if stats is None:
        return
    figures = list(_of_rows(counts, entities))
    if _fitted_here(root):
        figures += _of_vocabularies(vocabularies)
    for path, right in figures:
        _compare(stats, path, right, "the files have", found)
    _sums(root, stats, found)


def _compare(
    stats: dict[str, Json], path: tuple[str, ...], right: int, who: str, found: Findings
) -> None:
    said = _dig(stats, path)
    if isinstance(said, bool) or said != right:
        where = f"{'.'.join(path)}: {json.dumps(said, ensure_ascii=False)}, {who} {right}"
        found.add(_STATS, Place(file=folder.STATS, found=where))


def _dig(document: Json, path: tuple[str, ...]) -> Json:
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _of_rows(counts: dict[str, SplitCounts], entities: dict[str, int]) -> _Figures:
    for split, count in counts.items():
        yield ("rows", split), count.rows
        at = ("splits", split)
        yield (*at, "rows"), count.rows
        for name, ones in count.labels.items():
            yield (*at, name), ones
        yield (*at, "funnel_anomalies"), count.funnel_anomalies
        for name, feature in count.features.items():
            yield from _of_feature((*at, "features", name), feature)
    for split, distinct in entities.items():
        yield ("entities", split), distinct


def _of_feature(at: tuple[str, ...], feature: FeatureCounts) -> _Figures:
    yield (*at, "missing"), feature.missing
    yield (*at, "tokens"), feature.tokens
    yield (*at, "oov"), feature.oov
    if feature.tail_ids == "disjoint":
        yield (*at, "tail"), feature.tail


def _of_vocabularies(vocabularies: dict[str, Vocabulary]) -> _Figures:
    for name, one in vocabularies.items():
        at = ("vocab", name)
        yield (*at, "distinct"), one.distinct
        yield (*at, "kept"), one.kept
        yield (*at, "occurrences"), one.occurrences
        yield (*at, "occurrences_kept"), one.occurrences_kept


def _fitted_here(root: Path) -> bool:
    """Whether the vocabularies were fitted on this data; saved ones know other tokens too."""
    try:
        return load_json(root / MANIFEST).get("vocab_sha256") is None
    except (OSError, ValueError):
        return True


def _sums(root: Path, stats: dict[str, Json], found: Findings) -> None:
    """What has to add up in stats.json itself, and the lines of the rejects."""
    parts = [_count(stats, ("rows", one)) for one in ("train", "valid", "rejected", "dropped")]
    _compare(stats, ("rows", "read"), sum(parts), "train + valid + rejected + dropped are", found)
    rejected, common = _total(stats, "rejects"), _total(stats, "common_rejects")
    _compare(stats, ("rows", "rejected"), rejected, "the reasons under rejects are", found)
    lines = _lines(root / folder.REJECTS)
    if lines != rejected + common:
        said = f"{lines} lines, stats.json has {rejected} rejects and {common} common_rejects"
        found.add(_STATS, Place(file=folder.REJECTS, found=said))


def _total(stats: dict[str, Json], key: str) -> int:
    """The sum of counts by reason."""
    reasons = stats.get(key)
    return sum(_count(reasons, (one,)) for one in reasons) if isinstance(reasons, dict) else 0


def _count(document: dict[str, Json], path: tuple[str, ...]) -> int:
    said = _dig(document, path)
    return said if isinstance(said, int) else 0


def _lines(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as stream:
        return sum(1 for _ in stream)


def check_manifest(root: Path, found: Findings) -> None:
    """Checks that manifest.json lists the folder's files with their bytes and SHA-256."""
    manifest = _document(root, MANIFEST, _MANIFEST, found)
    if manifest is None:
        return
    entries = manifest.get("files")
    listed = {}
    for entry in entries if isinstance(entries, list) else []:
        name = entry.get("path") if isinstance(entry, dict) else None
        if isinstance(name, str) and _inside(name):
            listed[name] = entry
        else:
            found.add(_MANIFEST, Place(file=MANIFEST, found=f"no file of the folder: {entry}"))
    for name, entry in listed.items():
        if said := _difference(root / name, entry):
            found.add(_MANIFEST, Place(file=name, found=said))
    for name in _own_files(root):
        if name not in listed:
            found.add(_MANIFEST, Place(file=name, found=f"{MANIFEST} does not list it"))


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _difference(path: Path, entry: dict[str, Json]) -> str:
    """What is not as the manifest says, or nothing."""
    try:
        if (size := path.stat().st_size) != entry.get("bytes"):
            return f"{size} bytes, {MANIFEST} says {entry.get('bytes')}"
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if digest == entry.get("sha256") else f"{MANIFEST} says another SHA-256"


def _own_files(root: Path) -> Iterator[str]:
    """Files that a build writes into a folder, without the two that list the others."""
    for part in (*contract.SPLITS, folder.VOCAB):
        for path in sorted((root / part).glob("*.parquet")):
            if path.name[0] != ".":
                yield f"{part}/{path.name}"
    for name in (folder.FEATUREMAP, folder.STATS, folder.REJECTS):
        if name not in (MANIFEST, RUN) and (root / name).is_file():
            yield name
