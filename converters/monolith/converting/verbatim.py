"""Examples that are written as they came."""

from dataclasses import replace

import numpy as np

from ingot.converters.monolith.records import Bad, Records
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.wire.assembling import joined
from ingot.converters.monolith.wire.examples import example_records
from ingot.converters.monolith.wire.indexing import examples_and_doubled


def as_they_came(records: Records) -> tuple[Records, Rows, list[Bad]]:
    """The records that are Examples, untouched where that is right.

    Those that say their LineId, labels or weight both in fields and in features are written anew,
    with the fields alone: Monolith's reader would take labels twice. So are those whose
    data_source_key stands in a lagrangex header and not in the message.

    Returns:
        The good records, their rows, and what is wrong with the others.
    """
    rows, wrong, doubled = examples_and_doubled(records)
    good = rows.record - records.number
    anew = np.flatnonzero(doubled | (records.source[good] > 0))
    start, stop, data = records.start[good], records.stop[good], records.data
    if len(anew):
        which = np.zeros(len(rows), np.bool_)
        which[anew] = True
        made = example_records(rows.chosen(which))
        messages = [made.message(at) for at in range(len(made))]
        data, start[anew], stop[anew] = joined(data, messages)
    return (
        replace(
            records,
            data=data,
            start=start,
            stop=stop,
            sort_start=records.sort_start[good],
            sort_stop=records.sort_stop[good],
            source=rows.source,
            offset=records.offset[good],
        ),
        rows,
        wrong,
    )
