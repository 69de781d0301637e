"""How the figures of streams are shown: as tables."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ingot.converters.output.figures import (
    Columns,
    Section,
    format_count,
    format_known,
    format_measure,
    format_percent,
    list_facts,
    share_of,
    tabulate,
)
from ingot.converters.recsys.monolith.inspect.figures import (
    FeatureFigures,
    Figures,
    Lengths,
    Numbers,
    Slots,
    Unknown,
)

_SHOWN: Final = 12  # of what there may be many
_STREAMS: Final = 3
_FEW: Final = 3


def figure_sections(figures: Figures) -> Iterator[Section]:
    """Yield what a terminal shows."""
    yield Section([*_stream_facts(figures.streams), *list_facts(_stream_counts(figures))])
    yield Section(tabulate(_LABELS, enumerate(figures.label)))
    yield Section(tabulate(_line_id_columns(figures), _line_id_fields(figures)))
    filled = [one for one in figures.features if one.filled]
    yield Section(tabulate(_feature_columns(figures.rows), filled))
    if never := [one.name for one in figures.features if not one.filled]:
        yield Section(text=f"never filled: {_first_names(never, len(never))}")
    bad_lines = "\n".join(f"bad: {line}" for line in figures.bad.first)
    yield Section(text=bad_lines, is_warning=True)


def _stream_facts(streams: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, read_as in list(streams.items())[:_STREAMS]:
        yield "stream", f"{name} ({read_as})"
    if len(streams) > _STREAMS:
        yield "", f"and {len(streams) - _STREAMS:,} more"


def _stream_counts(figures: Figures) -> dict[str, str]:
    sort_ids, bad, beyond = figures.sort_ids, figures.bad, f"beyond {len(figures.features):,}"
    return {
        "rows": f"{figures.rows:,}",
        "records": f"{figures.records:,}{_lengths_in(figures.batches, ' of {} rows')}",
        "labels": _lengths_in(figures.labels, "{} a row") or "none",
        "sort_ids": f"{sort_ids.count:,} of {_lengths_text(sort_ids)} bytes" if sort_ids else "",
        **_spread_facts(figures),
        **_slot_facts(figures.slots),
        **_unknown_facts(figures.unknown),
        "left out": _counted(figures.names_left_out, f"entries of features {beyond}"),
        "bad": _pairs_text(bad.reasons)
        + (f"; {bad.bytes:,} bytes passed over" if bad.bytes and bad.reasons else ""),
    }


def _spread_facts(figures: Figures) -> dict[str, str]:
    """Return the values that rows have besides features, and their share."""
    spreads = {
        "sample_rate": (figures.line_ids.sample_rate, "default 1"),
        "instance_weight": (figures.instance_weight, "none"),
        "data_source_key": (figures.data_source_key, "0"),
    }
    facts = {}
    for name, (values_tally, default) in spreads.items():
        values = {f"{value:g}": rows for value, rows in values_tally.values}
        counts = {
            default: figures.rows - values_tally.given,
            **values,
            "others": values_tally.others,
        }
        if values_tally.given or name == "sample_rate":
            facts[name] = _pairs_text({value: rows for value, rows in counts.items() if rows})
    return facts


def _slot_facts(slots: Slots) -> dict[str, str]:
    return {
        "slots v1": _slots_text(slots.v1),
        "slots v2": _slots_text(slots.v2),
        "no v2 fids": _counted(slots.beyond, "have the top bit set"),
    }


def _slots_text(counts: Mapping[int, int]) -> str:
    ordered = dict(sorted(counts.items(), key=lambda pair: -pair[1]))
    many = f"{sum(counts.values()):,} fids in {len(counts):,} slots"
    return f"{many}: {_pairs_text(ordered)}" if counts else ""


def _unknown_facts(unknown: Unknown) -> dict[str, str]:
    counts_by_place = {
        "LineId": unknown.line_id,
        "record": unknown.record,
        "beside features": unknown.beside,
    }
    return {
        **{
            f"unknown in {place}": _pairs_text({f"field {n}": c for n, c in counts.items()})
            for place, counts in counts_by_place.items()
        },
        "unknown in features": _counted(unknown.features, "rows"),
        "no UTF-8 in LineId": _pairs_text(unknown.line_id_text),
    }


def _counted(count: int, unit: str) -> str:
    return f"{count:,} {unit}" if count else ""


_LABELS: Final[Columns[tuple[int, Numbers]]] = {
    "label": lambda one: str(one[0]),
    "rows": lambda one: format_count(one[1].count),
    "above 0": lambda one: format_known(format_count, one[1].positive or None),
    "0": lambda one: format_known(format_count, one[1].zero or None),
    "below 0": lambda one: format_known(format_count, one[1].negative or None),
    "NaN": lambda one: format_known(format_count, one[1].no_number or None),
    "least": lambda one: format_known(format_measure, one[1].least),
    "mean": lambda one: format_known(format_measure, one[1].mean),
    "most": lambda one: format_known(format_measure, one[1].most),
}


def _line_id_fields(figures: Figures) -> Iterator[tuple[str, int | None, int]]:
    """Yield a field, the rows that have it, and those that lack it though they should not."""
    lines = figures.line_ids
    yield "(any)", lines.rows, 0
    for name in dict.fromkeys([*lines.lacking, *lines.fields]):
        yield name, lines.fields.get(name, 0), lines.lacking.get(name, 0)
    if lines.incomplete:
        yield "(rows that lack one of uid, req_time, sample_rate)", None, lines.incomplete


def _line_id_columns(figures: Figures) -> Columns[tuple[str, int | None, int]]:
    return {
        "LineId field": lambda one: one[0],
        "rows": lambda one: format_known(format_count, one[1]),
        "share": lambda one: format_known(format_percent, share_of(one[1], figures.rows)),
        "lack it": lambda one: format_known(format_count, one[2] or None),
    }


def _feature_columns(rows: int) -> Columns[FeatureFigures]:
    def share(count: int) -> str:
        return format_known(format_percent, share_of(count or None, rows))

    return {
        "feature": lambda one: one.name,
        "kind": lambda one: " ".join(kind for kind in one.kinds if kind != "unset"),
        "filled": lambda one: share(one.filled),
        "empty": lambda one: share(one.empty),
        "unset": lambda one: share(one.unset),
        "absent": lambda one: share(one.absent),
        "again": lambda one: share(one.repeated),
        "values": lambda one: _lengths_text(one.lengths),
        "slots": _feature_slots,
    }


def _feature_slots(feature: FeatureFigures) -> str:
    has_few_slots = 0 < (feature.slots or 0) <= _FEW
    names = f" ({', '.join(map(str, feature.first_slots))})" if has_few_slots else ""
    return f"{feature.slots:,}{names}" if feature.slots else ""


def _lengths_in(lengths: Lengths | None, text: str) -> str:
    return text.format(_lengths_text(lengths)) if lengths else ""


def _lengths_text(lengths: Lengths | None) -> str:
    """Return one number, or minimum, maximum, mean and percentiles."""
    if lengths is None:
        return ""
    if lengths.least == lengths.most:
        return f"{lengths.most:,}"
    inner = f"mean {lengths.mean:.3g}, p50 {lengths.p50:,}, p99 {lengths.p99:,}"
    return f"{lengths.least:,} to {lengths.most:,} ({inner})"


def _pairs_text(counts: Mapping[str, int] | Mapping[int, int]) -> str:
    return _first_names((f"{name} ({count:,})" for name, count in counts.items()), len(counts))


def _first_names(names: Iterable[str], count: int) -> str:
    first = [name for name, _ in zip(names, range(_SHOWN), strict=False)]
    suffix = f" and {count - len(first):,} more" if count > len(first) else ""
    return ", ".join(first) + suffix
