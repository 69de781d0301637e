"""The figures of a processed folder as one HTML page: no script, nothing from elsewhere."""

import math

from ingot.converters import pages
from ingot.converters.ctr.checking.figures import UNKNOWN, FeatureFigures, Figures
from ingot.converters.ctr.featuremap import HASH, HYBRID, VOCAB, Feature
from ingot.converters.rows import Json


def render(told: Figures) -> str:
    """The page, UTF-8 text. Names and texts of the folder are escaped."""
    return pages.render(
        "ingot.converters.ctr.checking",
        "stats.html.j2",
        told=told,
        missing=_by_split(told, "missing"),
        ids=[_ids(one, _first(told, one)) for one in told.features],
        lengths=_lengths(told),
        kept=[_kept(one, _first(told, one)) for one in told.features if one.is_multi_hot],
        vocab=_vocabularies(told),
        odd={group: counts for group, counts in told.odd.items() if counts},
        names={one.name: _kind(one) for one in told.features},
    )


def _kind(one: Feature) -> str:
    """What a feature is, in a few words."""
    if one.encoding == UNKNOWN:
        return "list" if one.is_multi_hot else "single value"
    sizes = {
        VOCAB: f"{one.vocab_num_tokens:,} tokens" if one.vocab_num_tokens else "",
        HASH: f"{one.hash_bucket:,} buckets" if one.hash_bucket else "",
    }
    sizes[HYBRID] = f"{one.vocab_num_tokens or 0:,} + {one.hash_bucket or 0:,}"
    longest = f", lists up to {one.max_len}" if one.is_multi_hot else ""
    return f"{one.encoding} {sizes[one.encoding]}{longest}{', values' if one.use_value else ''}"


def _first(told: Figures, one: Feature) -> FeatureFigures:
    """A feature in train, or in the split that there is."""
    return next(iter(told.by_feature[one.name].values()))


def _by_split(told: Figures, name: str) -> list[dict[str, Json]]:
    return [
        {
            "name": one.name,
            "splits": [
                {"split": split, "share": getattr(figures, name)}
                for split, figures in told.by_feature[one.name].items()
            ],
        }
        for one in told.features
    ]


def _ids(one: Feature, figures: FeatureFigures) -> dict[str, Json]:
    """How the ids of tokens divide into vocabulary, hash and OOV; `known` false if unknown."""
    hashed, oov = figures.hashed, figures.oov or 0.0
    known = hashed is not None and bool(figures.tokens)
    own = 1 - (hashed or 0.0) - oov
    parts = [("own", own), ("hashed", hashed or 0.0), ("oov", oov)]
    return {
        "name": one.name,
        "known": known,
        "parts": [{"kind": kind, "share": share} for kind, share in parts],
    }


def _lengths(told: Figures) -> dict[str, Json]:
    """Where quantiles stand on a logarithmic axis from 1 (0 stands there too), in percent."""
    rows: list[dict[str, Json]] = []
    for one in told.features:
        lengths = _first(told, one).lengths
        if one.is_multi_hot and lengths is not None:
            longest = None if one.encoding == UNKNOWN else one.max_len
            rows.append({"name": one.name, "max_len": longest, **lengths})
    most = max([10.0, *(max(row["max"], row["max_len"] or 0) for row in rows)])
    decades = math.ceil(4 * math.log10(most)) / 4  # the axis ends at a quarter of a decade

    def place(length: float) -> float:
        return round(100 * math.log10(max(length, 1.0)) / decades, 2)

    for row in rows:
        row["at"] = {key: place(row[key] or 0) for key in ("p50", "p90", "p99", "max", "max_len")}
    ticks = [10**k for k in range(int(decades) + 1)]
    return {"rows": rows, "ticks": [{"label": f"{t:,}", "at": place(t)} for t in ticks]}


def _kept(one: Feature, figures: FeatureFigures) -> dict[str, Json]:
    return {
        "name": one.name,
        "tokens": figures.tokens_kept,
        "value": figures.value_kept,
        "cut_rows": figures.cut_rows,
    }


def _vocabularies(told: Figures) -> list[dict[str, Json]]:
    """Vocabularies, with the share of occurrences whose token has an id of its own."""
    found = []
    for one in told.features:
        held = told.vocab.get(one.name)
        if held is None:
            continue
        every, kept = held.get("occurrences", 0), held.get("occurrences_kept", 0)
        share = kept / every if every and one.encoding != HASH else None
        found.append({"name": one.name, "encoding": one.encoding, "covered": share, **held})
    return found
