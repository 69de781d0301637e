"""`ingot monolith stats`: streams in figures."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ingot.cli import monolith_options as o

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.monolith.looking import figures as f
    from ingot.converters.monolith.looking.opening import Said

_FEATURE_HEADS: Final = (
    "feature",
    "kind",
    "filled",
    "empty",
    "unset",
    "absent",
    "again",
    "values",
    "slots",
)
_LABEL_HEADS: Final = ("label", "rows", "above 0", "0", "below 0", "NaN", "least", "mean", "most")
_SHOWN: Final = 12  # of what there may be many
_STREAMS: Final = 3
_FEW: Final = 3


def stats(
    where: o.WhereArgument,
    kind: o.FromOption = None,
    framing: o.FramingOption = None,
    compression: o.CompressionOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Show streams in figures: features and how often they are filled, slots, labels, LineIds.

    What cannot be read is counted by reason and passed over.
    """
    from ingot.cli.console import output, print_json

    told = _counted(where, o.said(kind, framing, compression))
    if as_json:
        print_json(told.to_document())
    else:
        _show(output(), told)


def _counted(where: str, said: "Said") -> "f.Figures":
    from ingot.cli.console import meter
    from ingot.converters.job import Progress
    from ingot.converters.monolith.looking.counting import Counting
    from ingot.converters.monolith.looking.opening import opened
    from ingot.converters.monolith.records import Bad

    counting = Counting()
    with meter() as watch:
        for number, stream in enumerate(opened(where, said)):
            counting.begin(stream.where, stream.told)
            for part in stream.parts:
                if isinstance(part, Bad):
                    counting.bad(stream.where, part)
                    continue
                counting.add(part)
                far = {"rows": counting.rows, "records": counting.records}
                watch(Progress(stage="count", shards_done=number, shards=number + 1, **far))
    return counting.figures()


def _show(console: "Console", told: "f.Figures") -> None:
    from ingot.cli.console import plain
    from ingot.cli.show import filled, grid

    grid(console, list(_facts(told)))
    for table in (_labels(told), _line_ids(told), _features(told)):
        rows = list(table)
        if len(rows) > 1:
            console.print()
            grid(console, filled(rows))
    never = [one.name for one in told.features if not one.filled]
    if never:
        console.print()
        names = _first(never, len(never))
        console.print(plain(f"never filled: {names}"), soft_wrap=not console.is_terminal)
    for line in told.bad.first:
        console.print(plain(f"bad: {line}", "yellow"), soft_wrap=True)


def _facts(told: "f.Figures") -> Iterator[tuple[str, str]]:
    for where, read_as in list(told.streams.items())[:_STREAMS]:
        yield "stream", f"{where} ({read_as})"
    if len(told.streams) > _STREAMS:
        yield "", f"and {len(told.streams) - _STREAMS:,} more"
    yield "rows", f"{told.rows:,}"
    yield "records", f"{told.records:,}" + _each(told.batches, " of {} rows")
    yield "labels", _lengths(told.labels) + " a row" if told.labels else "none"
    if told.sort_ids:
        yield "sort_ids", f"{told.sort_ids.count:,}" + _each(told.sort_ids, " of {} bytes")
    yield from _spreads(told)
    yield from _slots(told.slots)
    yield from _unknown(told.unknown)
    if told.names_left_out:
        yield (
            "left out",
            f"{told.names_left_out:,} entries of features beyond {len(told.features):,}",
        )
    if told.bad.reasons:
        passed = f"; {told.bad.bytes:,} bytes passed over" if told.bad.bytes else ""
        yield "bad", _pairs(told.bad.reasons) + passed


def _spreads(told: "f.Figures") -> Iterator[tuple[str, str]]:
    """What rows give beside features: the share that gives it, and which values."""
    default = {"sample_rate": "default 1", "instance_weight": "none", "data_source_key": "0"}
    spreads = {
        "sample_rate": told.line_ids.sample_rate,
        "instance_weight": told.instance_weight,
        "data_source_key": told.data_source_key,
    }
    for name, spread in spreads.items():
        left = told.rows - spread.given
        counts = {f"{value:g}": rows for value, rows in spread.values}
        if spread.others:
            counts["others"] = spread.others
        if left:
            counts = {default[name]: left, **counts}
        if spread.given or name == "sample_rate":
            yield name, _pairs(counts)


def _slots(slots: "f.Slots") -> Iterator[tuple[str, str]]:
    for version, counts in (("v1", slots.v1), ("v2", slots.v2)):
        if counts:
            ordered = dict(sorted(counts.items(), key=lambda pair: -pair[1]))
            many = f"{sum(counts.values()):,} fids in {len(counts):,} slots"
            yield f"slots {version}", f"{many}: {_pairs(ordered)}"
    if slots.beyond:
        yield "no v2 fids", f"{slots.beyond:,} have the top bit set"


def _unknown(unknown: "f.Unknown") -> Iterator[tuple[str, str]]:
    places = {
        "LineId": unknown.line_id,
        "record": unknown.record,
        "beside features": unknown.beside,
    }
    for place, counts in places.items():
        if counts:
            yield f"unknown in {place}", _pairs({f"field {n}": c for n, c in counts.items()})
    if unknown.features:
        yield "unknown in features", f"{unknown.features:,} rows"
    if unknown.line_id_text:
        yield "no UTF-8 in LineId", _pairs(unknown.line_id_text)


def _labels(told: "f.Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.pages import count

    yield _LABEL_HEADS
    for position, one in enumerate(told.label):
        signs = (one.positive, one.zero, one.negative, one.no_number)
        ends = (_number(one.least), _number(one.mean), _number(one.most))
        yield str(position), count(one.count), *(count(n) if n else "" for n in signs), *ends


def _line_ids(told: "f.Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.pages import percent, share

    lines = told.line_ids
    yield "LineId field", "rows", "share", "lack it"
    yield "(any)", f"{lines.rows:,}", percent(share(lines.rows, told.rows)), ""
    for name in dict.fromkeys([*lines.lacking, *lines.fields]):
        rows = lines.fields.get(name, 0)
        lack = f"{lines.lacking[name]:,}" if lines.lacking.get(name) else ""
        yield name, f"{rows:,}", percent(share(rows, told.rows)), lack
    if lines.incomplete:
        yield "(rows that lack one of uid, req_time, sample_rate)", "", "", f"{lines.incomplete:,}"


def _features(told: "f.Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.pages import percent, share

    yield _FEATURE_HEADS
    for one in told.features:
        if not one.filled:
            continue
        kinds = [kind for kind in one.kinds if kind != "unset"]
        states = (one.filled, one.empty, one.unset, one.absent, one.repeated)
        shares = (percent(share(rows, told.rows)) if rows else "" for rows in states)
        yield one.name, " ".join(kinds), *shares, _lengths(one.lengths), _slots_of(one)


def _slots_of(one: "f.FeatureFigures") -> str:
    """How many there are, and which where they are few."""
    if not one.slots:
        return ""
    few = f" ({', '.join(map(str, one.first_slots))})" if one.slots <= _FEW else ""
    return f"{one.slots:,}{few}"


def _each(lengths: "f.Lengths | None", text: str) -> str:
    return text.format(_lengths(lengths)) if lengths else ""


def _lengths(lengths: "f.Lengths | None") -> str:
    """One number, or the ends with what lies between."""
    if lengths is None:
        return ""
    if lengths.least == lengths.most:
        return f"{lengths.most:,}"
    inner = f"mean {lengths.mean:.3g}, p50 {lengths.p50:,}, p99 {lengths.p99:,}"
    return f"{lengths.least:,} to {lengths.most:,} ({inner})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _pairs(counts: Mapping[str, int] | Mapping[int, int]) -> str:
    """What there is with how often, the first ones."""
    return _first((f"{name} ({count:,})" for name, count in counts.items()), len(counts))


def _first(names: Iterable[str], count: int) -> str:
    shown = [name for name, _ in zip(names, range(_SHOWN), strict=False)]
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    return ", ".join(shown) + more
