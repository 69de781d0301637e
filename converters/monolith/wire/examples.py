"""Example messages of rows."""

import numpy as np

from ingot.converters.monolith.records import Bytes, Places, Records
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.wire.kernels.writing import (
    measure_examples,
    measure_features,
    write_examples,
)


def names_of(rows: Rows) -> tuple[Bytes, Places]:
    """The distinct names as kernels take them: uint8[S], int64[N + 1] where each begins."""
    first = np.zeros(len(rows.names) + 1, np.int64)
    np.cumsum([len(name) for name in rows.names], out=first[1:])
    return np.frombuffer(b"".join(rows.names), np.uint8), first


def example_records(rows: Rows) -> Records:
    """Rows as Example messages, with the sort_ids and data_source_keys of their frames.

    What is written is what protobuf writes of an equal message, but for the order of unknown
    fields of LineIds and for values inside of features, which are copied as they came.

    Returns:
        R records; offsets are places in these, numbers are from 0.

    Raises:
        ConversionError: numba is not installed.
    """
    names, name_first = names_of(rows)
    weight = np.where(rows.weighted, rows.weight.view(np.uint32), 0).astype(np.uint32)
    features = (
        rows.start,
        rows.stop,
        rows.ident,
        rows.sorted_id,
        rows.extra_start,
        rows.extra_stop,
    )
    sizes, totals = np.empty(len(rows.name), np.int64), np.empty(len(rows), np.int64)
    measure_features(name_first, rows.name, *features, sizes)
    line, rest = (rows.line_start, rows.line_stop), (rows.rest_start, rows.rest_stop)
    measure_examples(rows.first, sizes, *line, rows.label_first, weight, rows.source, *rest, totals)
    out = np.empty(int(totals.sum()), np.uint8)
    label = rows.label.view(np.uint8)
    write_examples(
        rows.data,
        names,
        name_first,
        rows.first,
        rows.name,
        rows.raw,
        *features,
        sizes,
        *line,
        rows.label_first,
        label,
        weight,
        rows.source,
        *rest,
        out,
    )
    return _records(rows, out, totals)


def _records(rows: Rows, out: Bytes, totals: Places) -> Records:
    """Messages that lie one behind the other, with the sort_ids of the rows behind them."""
    stop = np.cumsum(totals)
    data, sort_start, sort_stop = with_sort_ids(rows, out)
    return Records(
        data=data,
        start=stop - totals,
        stop=stop,
        sort_start=sort_start,
        sort_stop=sort_stop,
        source=rows.source,
        offset=stop - totals,
        number=0,
    )


def with_sort_ids(rows: Rows, out: Bytes) -> tuple[Bytes, Places, Places]:
    """Bytes with the rows' sort_ids behind them, and int64[R] each where these begin and end."""
    from ingot.converters.monolith.wire.assembling import gathered

    sort_ids, first = gathered(rows.data, rows.sort_start, rows.sort_stop)
    data = np.concatenate([out, sort_ids]) if len(sort_ids) else out
    return data, len(out) + first[:-1], len(out) + first[1:]
