"""What a processed folder says in figures: its stats.json, or what can be counted of its rows.

    told = figures(Path("out")).to_document()

A share that is not known is None; `notes` say why.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import load_json
from ingot.converters.recsys.ctr import contract, featuremap
from ingot.converters.recsys.ctr.featuremap import HASH, HYBRID, VOCAB, Feature, FeatureMap
from ingot.converters.recsys.ctr.validation import processed_folder
from ingot.converters.recsys.ctr.validation.findings import Findings
from ingot.converters.recsys.ctr.validation.processed_folder import (
    FeatureCounts,
    Folder,
    SplitCounts,
    cell_arrays,
    check_columns,
    parquet_type,
)
from ingot.converters.rows import Json

UNKNOWN: Final = "unknown"  # the encoding of a feature where no featuremap says it
LENGTHS: Final = ("min", "mean", "p50", "p90", "p99", "max")
_COUNTED: Final = (
    "no stats.json: counted from the rows. Lengths are those of the written lists; what was cut, "
    "rejected or malformed, entities and vocabularies are not known"
)
_NO_FEATUREMAP: Final = (
    "no featuremap.yaml: encodings are not known, so that ids out of a vocabulary or of a tail "
    "cannot be told"
)
_SHARED_TAIL: Final = "tail_ids is contract: ids of a hybrid's tail cannot be told from its head's"


@dataclass(frozen=True, kw_only=True)
class SplitFigures:
    """A split. Shares are None where there is nothing to divide by."""

    rows: int
    clicks: int
    conversions: int
    clicked_conversions: int
    funnel_anomalies: int
    entities: int | None  # distinct ones, None where they were not counted
    ctr: float | None
    cvr_of_clicks: float | None
    cvr_of_impressions: float | None
    ctcvr: float | None


@dataclass(frozen=True, kw_only=True)
class FeatureFigures:
    """A feature in a split."""

    missing: float | None
    tokens: int
    oov: float | None  # share of them out of the vocabulary; None where the encoding has no such id
    hashed: float | None  # share of them that are hashes; None where it is not known
    # min, mean, p50, p90, p99, max of the lists before tokens were selected (of the written lists
    # where that is not known); None for a single value
    lengths: dict[str, float] | None
    cut_rows: float | None
    tokens_kept: float | None
    value_kept: float | None


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that is known of a folder."""

    folder: str
    counted: bool
    profile: dict[str, Json] | None
    features: tuple[Feature, ...]
    splits: dict[str, SplitFigures]
    by_feature: dict[str, dict[str, FeatureFigures]]
    vocab: dict[str, dict[str, int]]
    odd: dict[str, dict[str, int]]
    notes: tuple[str, ...]

    def to_document(self) -> dict[str, Json]:
        """Return the figures as JSON."""
        return {
            "folder": self.folder,
            "source": "rows" if self.counted else processed_folder.STATS,
            "profile": self.profile,
            "splits": {name: asdict(one) for name, one in self.splits.items()},
            "features": {
                one.name: {
                    "encoding": one.encoding,
                    "max_len": None if one.encoding == UNKNOWN else one.max_len,
                    "splits": {
                        split: asdict(figures)
                        for split, figures in self.by_feature[one.name].items()
                    },
                }
                for one in self.features
            },
            "vocab": self.vocab,
            "odd": self.odd,
            "notes": list(self.notes),
        }


def read_figures(root: Path, given: FeatureMap | None = None) -> Figures:
    """Read the figures of a processed folder."""
    files = processed_folder.find_folder(root)
    path = root / processed_folder.FEATUREMAP
    used = given or (featuremap.load(path) if path.is_file() else None)
    try:
        stats = load_json(root / processed_folder.STATS)
    except FileNotFoundError:
        return _figures_of_rows(files, used)
    except (OSError, ValueError) as error:
        path_text, hint = str(root / processed_folder.STATS), "delete it to have the rows counted"
        raise SourceError(path_text, f"cannot be read: {error}", hint) from error
    return _figures_of_stats(files, used, stats)


def _share_of(part: Json, total: Json) -> float | None:
    if not isinstance(part, (int, float)) or not isinstance(total, (int, float)) or not total:
        return None
    return part / total


def _as_count(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a count")
    return value


def _as_counts(document: dict[str, Json]) -> dict[str, int]:
    """Counts by name, without those that are null."""
    return {key: _as_count(count) for key, count in document.items() if count is not None}


def _split_figures(entry: dict[str, Json], entities: int | None) -> SplitFigures:
    """A split from an entry of stats.json, or of the same keys."""
    names = ("rows", "y_ctr", "y_cvr", "y_ctcvr", "funnel_anomalies")
    rows, clicks, bought, clicked, anomalies = (_as_count(entry[name]) for name in names)
    return SplitFigures(
        rows=rows,
        clicks=clicks,
        conversions=bought,
        clicked_conversions=clicked,
        funnel_anomalies=anomalies,
        entities=entities,
        ctr=_share_of(clicks, rows),
        cvr_of_clicks=_share_of(clicked, clicks),
        cvr_of_impressions=_share_of(bought, rows),
        ctcvr=_share_of(clicked, rows),
    )


def _feature_figures(feature: Feature, entry: dict[str, Json], rows: int) -> FeatureFigures:
    """A feature from an entry of stats.json, or of the same keys; absent ones are not known."""
    tokens = _as_count(entry["tokens"])
    hashed = {HASH: tokens, HYBRID: entry.get("tail")}.get(feature.encoding, 0)
    lengths = entry.get("lengths")
    return FeatureFigures(
        missing=_share_of(entry["missing"], rows),
        tokens=tokens,
        oov=_share_of(entry["oov"], tokens) if feature.encoding == VOCAB else None,
        hashed=None if feature.encoding == UNKNOWN else _share_of(hashed, tokens),
        lengths=None if lengths is None else {key: lengths[key] + 0 for key in LENGTHS},
        cut_rows=_share_of(entry.get("cut_rows"), rows) if feature.is_multi_hot else None,
        tokens_kept=_share_of(tokens, entry.get("distinct_before"))
        if feature.is_multi_hot
        else None,
        value_kept=_share_of(entry.get("value_kept"), 1),
    )


_ODD: Final = {
    "rows": ("read", "rejected", "dropped"),
    "entities": ("rows_of_common", "repeated", "in_rows", "unknown", "rows_of_unknown"),
}


def _figures_of_stats(files: Folder, used: FeatureMap | None, stats: dict[str, Json]) -> Figures:
    if used is None:
        hint = "give the `featuremap`"
        raise SourceError(str(files.root / processed_folder.FEATUREMAP), "no such file", hint)
    try:
        known = _known_figures(used.features, stats["splits"], stats["entities"])
        unusual = {
            group: _as_counts({k: stats[group][k] for k in keys}) for group, keys in _ODD.items()
        }
        for group in ("rejects", "common_rejects", "tokens", "samples"):
            unusual[group] = _as_counts(stats.get(group) or {})
        vocab = {name: _as_counts(entry) for name, entry in stats["vocab"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        location = str(files.root / processed_folder.STATS)
        hint = "validate the folder for details, or delete the file to have the rows counted"
        raise SourceError(location, f"is not as a build writes it: {error!r}", hint) from error
    return Figures(
        folder=str(files.root),
        counted=False,
        profile=asdict(contract.Profile.of(used)),
        features=used.features,
        vocab=vocab,
        odd=unusual,
        notes=(),
        **known,
    )


def _known_figures(
    features: Iterable[Feature], splits: dict[str, dict[str, Json]], entities: dict[str, Json]
) -> dict[str, Any]:
    """The figures of splits as stats.json has them, and of the features in them."""
    of_splits = {name: _split_figures(entry, entities.get(name)) for name, entry in splits.items()}
    by_feature = {
        one.name: {
            name: _feature_figures(one, entry["features"][one.name], entry["rows"])
            for name, entry in splits.items()
        }
        for one in features
    }
    return {"splits": of_splits, "by_feature": by_feature}


def _figures_of_rows(files: Folder, used: FeatureMap | None) -> Figures:
    if not files.all_parts:
        raise SourceError(str(files.root), "no Parquet file in train/ or valid/")
    if used:
        features, tail_ids = used.features, used.tail_ids
    else:
        first = processed_folder.read_schema(files.all_parts[0])
        features, tail_ids = tuple(_guess_features(first)), "contract"
    counted = {split: _count_split(files, split, features, tail_ids) for split in files.parts}
    shared = used is not None and tail_ids == "contract"
    notes = [_COUNTED]
    notes += [_NO_FEATUREMAP] if used is None else []
    notes += [_SHARED_TAIL] if shared and any(one.encoding == HYBRID for one in features) else []
    return Figures(
        folder=str(files.root),
        counted=True,
        profile=asdict(contract.Profile.of(used)) if used else None,
        features=features,
        vocab={},
        odd={},
        notes=tuple(notes),
        **_known_figures(features, counted, {}),
    )


def _guess_features(schema: pa.Schema) -> Iterable[Feature]:
    """The features that the columns of a file show, without their encodings."""
    for one in schema:
        if one.name.endswith("_idx"):
            name, multi = one.name.removesuffix("_idx"), pa.types.is_list(parquet_type(one.type))
            longest = 1 if multi else None
            yield Feature(name=name, src=0, field="", encoding=UNKNOWN, max_len=longest)


def _count_split(
    files: Folder, split: str, features: tuple[Feature, ...], tail_ids: str
) -> dict[str, Json]:
    """What stats.json would hold of a split, as far as rows show it."""
    counts = SplitCounts(
        features={one.name: FeatureCounts(feature=one, tail_ids=tail_ids) for one in features}
    )
    names = [*contract.LABELS, *(contract.index_column(one) for one in features)]
    for part in files.parts[split]:
        kinds = check_columns(
            processed_folder.read_schema(part), FeatureMap(features=features), part.name, Findings()
        )
        if missing := [name for name in names if name not in kinds]:
            problem = f"no column {', '.join(missing)} that can be counted"
            raise SourceError(str(part.path), problem, "validate the folder for details")
        for _, batch in processed_folder.read_batches(part, names):
            columns = {name: cell_arrays(batch.column(name), kinds[name]) for name in names}
            known = {name: one for name, one in columns.items() if one is not None}
            counts.add(batch.num_rows, known)
    entries = {
        name: {
            "missing": one.missing,
            "tokens": one.tokens,
            "oov": one.oov,
            "tail": one.tail if one.has_tail else None,
            "lengths": contract.length_figures(one.lengths),
        }
        for name, one in counts.features.items()
    }
    sums = {"rows": counts.rows, "funnel_anomalies": counts.funnel_anomalies}
    return {**counts.labels, **sums, "features": entries}
