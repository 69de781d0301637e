"""How the statistics of a processed folder are shown: as tables, and as one HTML page."""

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ingot.converters.output.figures import (
    Columns,
    Section,
    format_count,
    format_known,
    format_number,
    format_percent,
    list_facts,
    render_page,
    share_of,
    tabulate,
)
from ingot.converters.recsys.ctr.featuremap import HASH, HYBRID, VOCAB, Feature
from ingot.converters.recsys.ctr.validation.figures import (
    UNKNOWN,
    FeatureFigures,
    Figures,
    SplitFigures,
)
from ingot.converters.rows import Json

_OneFeature: TypeAlias = tuple[Feature, FeatureFigures]


def stats_sections(figures: Figures) -> Iterator[Section]:
    """Yield what a terminal shows."""
    counts = {
        group.replace("_", " "): _nonzero_text(counts) for group, counts in figures.odd.items()
    }
    yield Section(
        list_facts(
            {
                "folder": figures.folder,
                "figures of": "the rows" if figures.counted else "stats.json",
                "profile": _profile_text(figures.profile),
                **counts,
            }
        )
    )
    yield Section([*zip(*tabulate(_SPLITS, figures.splits.items()), strict=True)])
    for split in figures.splits:
        features = [(one, figures.by_feature[one.name][split]) for one in figures.features]
        yield Section(tabulate(_FEATURES, features), f"Features in {split}")
        lists = [one for one in features if one[0].is_multi_hot and one[1].lengths]
        yield Section(tabulate(_LISTS, lists), f"Lists in {split}")
    yield Section(tabulate(_VOCABULARIES, figures.vocab.items()), "Vocabularies of the train rows")


_SPLITS: Columns[tuple[str, SplitFigures]] = {
    "": lambda split: split[0],
    "rows": lambda split: format_count(split[1].rows),
    "entities": lambda split: format_count(split[1].entities),
    "clicks": lambda split: format_count(split[1].clicks),
    "conversions": lambda split: format_count(split[1].conversions),
    "without a click": lambda split: format_count(split[1].funnel_anomalies),
    "ctr": lambda split: format_percent(split[1].ctr),
    "cvr of clicks": lambda split: format_percent(split[1].cvr_of_clicks),
    "cvr of impressions": lambda split: format_percent(split[1].cvr_of_impressions),
    "ctcvr": lambda split: format_percent(split[1].ctcvr),
}
_FEATURES: Columns[_OneFeature] = {
    "feature": lambda one: one[0].name,
    "encoding": lambda one: one[0].encoding,
    "missing": lambda one: format_percent(one[1].missing),
    "oov": lambda one: format_known(format_percent, one[1].oov),
    "hashed": lambda one: format_known(format_percent, one[1].hashed or None),
}


def _length_cell(name: str) -> Callable[[_OneFeature], str]:
    return lambda one: format_number((one[1].lengths or {})[name])


_LISTS: Columns[_OneFeature] = {
    "list": lambda one: one[0].name,
    **{name: _length_cell(name) for name in ("mean", "p50", "p90", "p99", "max")},
    "max_len": lambda one: "" if one[0].encoding == UNKNOWN else str(one[0].max_len),
    "rows cut": lambda one: format_known(format_percent, one[1].cut_rows),
    "kept": lambda one: format_known(format_percent, one[1].tokens_kept),
    "value kept": lambda one: format_known(format_percent, one[1].value_kept),
}
_VOCABULARIES: Columns[tuple[str, dict[str, int]]] = {
    "feature": lambda one: one[0],
    "distinct": lambda one: format_count(one[1].get("distinct")),
    "own id": lambda one: format_count(one[1].get("kept")),
    "occurrences covered": lambda one: _covered_text(one[1]),
    "unseen": lambda one: _new_text(one[1], "new_unseen"),
    "expected": lambda one: _new_text(one[1], "new_expected"),
}


def _nonzero_text(counts: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items() if n)


def _profile_text(profile: dict[str, Json] | None) -> str:
    return ", ".join(f"{key} {value}" for key, value in (profile or {}).items())


def _covered_text(vocabulary: dict[str, int]) -> str:
    """Return the share of occurrences that tokens with an id of their own cover."""
    share = share_of(vocabulary.get("occurrences_kept", 0), vocabulary.get("occurrences", 0))
    return format_percent(share) if vocabulary.get("kept") else ""


def _new_text(vocabulary: dict[str, int], name: str) -> str:
    """Return a share of the tokens that an earlier build did not have, "" without any."""
    new, count = vocabulary.get("new_tokens"), vocabulary.get(name)
    return format_known(format_percent, share_of(count, new or 0))


def render_stats_page(folder_figures: Figures) -> str:
    """Return the page as UTF-8 text. Names and texts of the folder are escaped."""
    vocabularies = []
    for one in folder_figures.features:
        if (vocabulary := folder_figures.vocab.get(one.name)) is not None:
            occurrences, kept = (
                vocabulary.get("occurrences", 0),
                vocabulary.get("occurrences_kept", 0),
            )
            share = kept / occurrences if occurrences and one.encoding != HASH else None
            entry = {"name": one.name, "encoding": one.encoding, "covered": share}
            vocabularies.append(entry | vocabulary)
    return render_page(
        "ingot.converters.recsys.ctr.validation",
        "stats.html.j2",
        told=folder_figures,
        missing=[
            {
                "name": one.name,
                "splits": [
                    {"split": split, "share": figures.missing}
                    for split, figures in folder_figures.by_feature[one.name].items()
                ],
            }
            for one in folder_figures.features
        ],
        ids=[
            _id_shares(one, _main_split_figures(folder_figures, one))
            for one in folder_figures.features
        ],
        lengths=_length_axis(folder_figures),
        kept=[
            {
                "name": one.name,
                "tokens": (figures := _main_split_figures(folder_figures, one)).tokens_kept,
                "value": figures.value_kept,
                "cut_rows": figures.cut_rows,
            }
            for one in folder_figures.features
            if one.is_multi_hot
        ],
        vocab=vocabularies,
        odd={group: counts for group, counts in folder_figures.odd.items() if counts},
        names={one.name: _feature_kind(one) for one in folder_figures.features},
    )


def _feature_kind(feature: Feature) -> str:
    if feature.encoding == UNKNOWN:
        return "list" if feature.is_multi_hot else "single value"
    sizes = {
        VOCAB: f"{feature.vocab_num_tokens:,} tokens" if feature.vocab_num_tokens else "",
        HASH: f"{feature.hash_bucket:,} buckets" if feature.hash_bucket else "",
    }
    sizes[HYBRID] = f"{feature.vocab_num_tokens or 0:,} + {feature.hash_bucket or 0:,}"
    longest = f", lists up to {feature.max_len}" if feature.is_multi_hot else ""
    return (
        f"{feature.encoding} {sizes[feature.encoding]}{longest}"
        f"{', values' if feature.use_value else ''}"
    )


def _main_split_figures(figures: Figures, feature: Feature) -> FeatureFigures:
    """A feature in train, or in the split that there is."""
    return next(iter(figures.by_feature[feature.name].values()))


def _id_shares(feature: Feature, figures: FeatureFigures) -> dict[str, Json]:
    """How the ids of tokens divide into vocabulary, hash and OOV; `known` false if unknown."""
    hashed, oov = figures.hashed, figures.oov or 0.0
    parts = {"own": 1 - (hashed or 0.0) - oov, "hashed": hashed or 0.0, "oov": oov}
    return {
        "name": feature.name,
        "known": hashed is not None and bool(figures.tokens),
        "parts": [{"kind": kind, "share": share} for kind, share in parts.items()],
    }


def _length_axis(figures: Figures) -> dict[str, Json]:
    """Where quantiles stand on a logarithmic axis from 1 (0 stands there too), in percent."""
    rows: list[dict[str, Json]] = []
    for one in figures.features:
        lengths = _main_split_figures(figures, one).lengths
        if one.is_multi_hot and lengths is not None:
            longest = None if one.encoding == UNKNOWN else one.max_len
            rows.append({"name": one.name, "max_len": longest, **lengths})
    axis_end = max([10.0, *(max(row["max"], row["max_len"] or 0) for row in rows)])
    decades = math.ceil(4 * math.log10(axis_end)) / 4  # the axis ends at a quarter of a decade

    def position(length: float) -> float:
        return round(100 * math.log10(max(length, 1.0)) / decades, 2)

    for row in rows:
        row["at"] = {
            key: position(row[key] or 0) for key in ("p50", "p90", "p99", "max", "max_len")
        }
    ticks = [10**k for k in range(int(decades) + 1)]
    return {"rows": rows, "ticks": [{"label": f"{t:,}", "at": position(t)} for t in ticks]}
