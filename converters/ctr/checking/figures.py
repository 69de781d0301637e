"""What a processed folder says in figures: its stats.json, or what can be counted of its rows.

    told = figures(Path("out")).to_document()

A share that is not known is None; `notes` say why.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from ingot.converters.ctr import contract, featuremap
from ingot.converters.ctr.checking import folder
from ingot.converters.ctr.checking.cells import cells
from ingot.converters.ctr.checking.counting import FeatureCounts, SplitCounts, quantile
from ingot.converters.ctr.checking.findings import Findings
from ingot.converters.ctr.checking.folder import Folder
from ingot.converters.ctr.checking.rules_columns import check_columns, parquet_type
from ingot.converters.ctr.featuremap import HASH, HYBRID, Feature, FeatureMap
from ingot.converters.errors import SourceError
from ingot.converters.json_files import load_json
from ingot.converters.rows import Json

UNKNOWN: Final = "unknown"
"""The encoding of a feature where no featuremap says it."""
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
    """A split. Shares are None where there is nothing to divide by.

    Attributes:
        rows: impressions.
        clicks: rows with y_ctr.
        conversions: rows with y_cvr.
        clicked_conversions: rows with y_ctcvr.
        funnel_anomalies: rows with y_cvr and no y_ctr.
        entities: distinct ones, None where they were not counted.
        ctr: clicks / rows.
        cvr_of_clicks: clicked_conversions / clicks.
        cvr_of_impressions: conversions / rows.
        ctcvr: clicked_conversions / rows.
    """

    rows: int
    clicks: int
    conversions: int
    clicked_conversions: int
    funnel_anomalies: int
    entities: int | None
    ctr: float | None
    cvr_of_clicks: float | None
    cvr_of_impressions: float | None
    ctcvr: float | None


@dataclass(frozen=True, kw_only=True)
class FeatureFigures:
    """A feature in a split.

    Attributes:
        missing: share of rows without a token.
        tokens: ids written, missing ones not counted.
        oov: share of them out of the vocabulary; None where the encoding has no such id.
        hashed: share of them that are hashes; None where it is not known.
        lengths: min, mean, p50, p90, p99, max of the lists before tokens were selected (of the
            written lists where that is not known); None for a single value.
        cut_rows: share of rows that lost tokens.
        tokens_kept: share of distinct tokens that stayed.
        value_kept: share of the sum of |value| that stayed.
    """

    missing: float | None
    tokens: int
    oov: float | None
    hashed: float | None
    lengths: dict[str, float] | None
    cut_rows: float | None
    tokens_kept: float | None
    value_kept: float | None


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that is known of a folder.

    Attributes:
        folder: as it was named.
        counted: whether the rows were counted, for want of a stats.json.
        profile: what the featuremap chooses where the contract leaves a choice.
        features: those that there are, in order.
        splits: by name.
        by_feature: figures by feature and split.
        vocab: distinct, kept, occurrences, occurrences_kept by feature, where they are known.
        odd: what was rejected, dropped or malformed, by group and name; empty where not known.
        notes: what is not known, and why.
    """

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
        """The figures as JSON."""
        return {
            "folder": self.folder,
            "source": "rows" if self.counted else folder.STATS,
            "profile": self.profile,
            "splits": {name: asdict(one) for name, one in self.splits.items()},
            "features": {
                one.name: {
                    "encoding": one.encoding,
                    "max_len": None if one.encoding == UNKNOWN else one.max_len,
                    "splits": {
                        split: asdict(told) for split, told in self.by_feature[one.name].items()
                    },
                }
                for one in self.features
            },
            "vocab": self.vocab,
            "odd": self.odd,
            "notes": list(self.notes),
        }


def figures(root: Path, given: FeatureMap | None = None) -> Figures:
    """The figures of a processed folder.

    Args:
        root: the folder.
        given: a featuremap to take in place of the folder's own.

    Raises:
        SourceError: it is no processed folder, or a file of it cannot be read.
        FeaturemapError: its featuremap is wrong.
    """
    files = folder.find(root)
    used = given or _featuremap(root)
    try:
        stats = load_json(root / folder.STATS)
    except FileNotFoundError:
        return _counted(files, used)
    except (OSError, ValueError) as error:
        where, hint = str(root / folder.STATS), "delete it to have the rows counted"
        raise SourceError(where, f"cannot be read: {error}", hint) from error
    return _told(files, used, stats)


def _featuremap(root: Path) -> FeatureMap | None:
    path = root / folder.FEATUREMAP
    return featuremap.load(path) if path.is_file() else None


def _share(part: Json, whole: Json) -> float | None:
    if not isinstance(part, (int, float)) or not isinstance(whole, (int, float)) or not whole:
        return None
    return part / whole


def _whole(told: Json) -> int:
    """A count; TypeError where it is none."""
    if isinstance(told, bool) or not isinstance(told, int):
        raise TypeError(f"{told!r} is no count")
    return told


def _wholes(told: dict[str, Json]) -> dict[str, int]:
    """Counts by name, without those that are null."""
    return {key: _whole(count) for key, count in told.items() if count is not None}


def _split(told: dict[str, Json], entities: int | None) -> SplitFigures:
    """A split from an entry of stats.json, or of the same keys."""
    names = ("rows", "y_ctr", "y_cvr", "y_ctcvr", "funnel_anomalies")
    rows, clicks, bought, both, odd = (_whole(told[name]) for name in names)
    return SplitFigures(
        rows=rows,
        clicks=clicks,
        conversions=bought,
        clicked_conversions=both,
        funnel_anomalies=odd,
        entities=entities,
        ctr=_share(clicks, rows),
        cvr_of_clicks=_share(both, clicks),
        cvr_of_impressions=_share(bought, rows),
        ctcvr=_share(both, rows),
    )


def _feature(one: Feature, told: dict[str, Json], rows: int) -> FeatureFigures:
    """A feature from an entry of stats.json, or of the same keys; absent ones are not known."""
    tokens = _whole(told["tokens"])
    hashed = {HASH: tokens, HYBRID: told.get("tail")}.get(one.encoding, 0)
    has_oov = one.encoding == featuremap.VOCAB
    unknown = one.encoding == UNKNOWN
    return FeatureFigures(
        missing=_share(told["missing"], rows),
        tokens=tokens,
        oov=_share(told["oov"], tokens) if has_oov else None,
        hashed=None if unknown else _share(hashed, tokens),
        lengths=_numbers(told.get("lengths")),
        cut_rows=_share(told.get("cut_rows"), rows) if one.is_multi_hot else None,
        tokens_kept=_share(tokens, told.get("distinct_before")) if one.is_multi_hot else None,
        value_kept=_share(told.get("value_kept"), 1),
    )


def _numbers(told: dict[str, Json] | None) -> dict[str, float] | None:
    """The lengths' figures; TypeError or KeyError where they are not."""
    return None if told is None else {key: told[key] + 0 for key in LENGTHS}


_ODD: Final = {
    "rows": ("read", "rejected", "dropped"),
    "entities": ("rows_of_common", "repeated", "in_rows", "unknown", "rows_of_unknown"),
}


def _told(files: Folder, used: FeatureMap | None, stats: dict[str, Json]) -> Figures:
    """The figures of stats.json.

    Raises:
        SourceError: it is no build's, or there is no featuremap to read it with.
    """
    if used is None:
        hint = "name it with --featuremap"
        raise SourceError(str(files.root / folder.FEATUREMAP), "no such file", hint)
    try:
        splits = {
            name: _split(told, stats["entities"].get(name))
            for name, told in stats["splits"].items()
        }
        by_feature = {
            one.name: {
                name: _feature(one, told["features"][one.name], told["rows"])
                for name, told in stats["splits"].items()
            }
            for one in used.features
        }
        odd = {group: _wholes({k: stats[group][k] for k in keys}) for group, keys in _ODD.items()}
        for group in ("rejects", "common_rejects", "tokens", "samples"):
            odd[group] = _wholes(stats.get(group) or {})
        vocab = {name: _wholes(told) for name, told in stats["vocab"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        where = str(files.root / folder.STATS)
        hint = "ingot ctr validate says what; delete it to have the rows counted"
        raise SourceError(where, f"is not as a build writes it: {error!r}", hint) from error
    return Figures(
        folder=str(files.root),
        counted=False,
        profile=asdict(contract.Profile.of(used)),
        features=used.features,
        splits=splits,
        by_feature=by_feature,
        vocab=vocab,
        odd=odd,
        notes=(),
    )


def _counted(files: Folder, used: FeatureMap | None) -> Figures:
    """The figures of the rows themselves."""
    if not files.all_parts:
        raise SourceError(str(files.root), "no Parquet file in train/ or valid/")
    features = used.features if used else tuple(_guessed(folder.schema(files.all_parts[0])))
    tail_ids = used.tail_ids if used else "contract"
    counts = {split: _count(files, split, features, tail_ids) for split in files.parts}
    shared = used is not None and tail_ids == "contract"
    notes = [_COUNTED]
    notes += [_NO_FEATUREMAP] if used is None else []
    notes += [_SHARED_TAIL] if shared and any(one.encoding == HYBRID for one in features) else []
    return Figures(
        folder=str(files.root),
        counted=True,
        profile=asdict(contract.Profile.of(used)) if used else None,
        features=features,
        splits={
            name: _split(
                {"rows": one.rows, **one.labels, "funnel_anomalies": one.funnel_anomalies}, None
            )
            for name, one in counts.items()
        },
        by_feature={
            one.name: {
                name: _feature(one, _entry(count.features[one.name]), count.rows)
                for name, count in counts.items()
            }
            for one in features
        },
        vocab={},
        odd={},
        notes=tuple(notes),
    )


def _guessed(schema: pa.Schema) -> Iterable[Feature]:
    """The features that the columns of a file show, without their encodings."""
    for one in schema:
        if one.name.endswith("_idx"):
            multi = pa.types.is_list(parquet_type(one.type))
            yield Feature(
                name=one.name.removesuffix("_idx"),
                src=0,
                field="",
                encoding=UNKNOWN,
                max_len=1 if multi else None,
            )


def _count(files: Folder, split: str, features: tuple[Feature, ...], tail_ids: str) -> SplitCounts:
    counts = SplitCounts(
        features={one.name: FeatureCounts(feature=one, tail_ids=tail_ids) for one in features}
    )
    wanted = [*contract.LABELS, *(contract.index_column(one) for one in features)]
    for part in files.parts[split]:
        kinds = check_columns(
            folder.schema(part), FeatureMap(features=features), part.name, Findings()
        )
        if missing := [name for name in wanted if name not in kinds]:
            problem = f"no column {', '.join(missing)} that can be counted"
            raise SourceError(str(part.path), problem, "ingot ctr validate says more")
        for _, batch in folder.batches(part, wanted):
            columns = {name: cells(batch.column(name), kinds[name]) for name in wanted}
            known = {name: one for name, one in columns.items() if one is not None}
            counts.add(batch.num_rows, known)
    return counts


def _entry(counts: FeatureCounts) -> dict[str, Json]:
    """What stats.json would hold of these counts, as far as rows show it."""
    return {
        "missing": counts.missing,
        "tokens": counts.tokens,
        "oov": counts.oov,
        "tail": counts.tail if counts.has_tail else None,
        "lengths": _lengths(counts) if counts.feature.is_multi_hot else None,
    }


def _lengths(counts: FeatureCounts) -> dict[str, float] | None:
    lengths = counts.lengths
    there = lengths.nonzero()[0]
    if not len(there):
        return None
    total = int(lengths.sum())
    return {
        "min": int(there[0]),
        "mean": float((lengths * range(len(lengths))).sum() / total),
        "p50": quantile(lengths, 0.5),
        "p90": quantile(lengths, 0.9),
        "p99": quantile(lengths, 0.99),
        "max": int(there[-1]),
    }
