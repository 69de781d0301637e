"""Index records of any kind as rows: where in their bytes the parts of each row lie."""

import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.recsys.monolith.contract import MAX_BATCH_ROWS, MAX_FEATURES
from ingot.converters.recsys.monolith.record_index import (
    Bad,
    Bytes,
    Places,
    Records,
    Rows,
    prefix_sums,
    records_of_messages,
)
from ingot.converters.recsys.monolith.wire import batch_kernels as b
from ingot.converters.recsys.monolith.wire import example_kernels as w
from ingot.converters.recsys.monolith.wire.format_kernels import (
    find_known_fields,
    message_shapes,
    new_grammar,
)
from ingot.converters.recsys.monolith.wire.row_assembly import (
    UNSUPPORTED,
    WalkedRows,
    assemble_rows,
    gather_spans,
)


def find_known(data: Bytes, start: Places, stop: Places, message: str) -> NDArray[np.bool_]:
    """Return which spans of unknown fields have one that a message knows."""
    numbers, fields = message_shapes()
    is_known = np.zeros(len(start), np.bool_)
    if (start != stop).any():
        find_known_fields(data, start, stop, fields[numbers[message]], is_known)
    return is_known


def find_known_by_kind(
    data: Bytes, start: Places, stop: Places, raw: NDArray[np.bool_], message: str, of_raw: str
) -> NDArray[np.bool_]:
    """Do the same as `find_known` if some unknown fields go into another message: bool[N]."""
    return np.where(
        raw, find_known(data, start, stop, of_raw), find_known(data, start, stop, message)
    )


def find_unfit_for_batches(rows: Rows) -> NDArray[np.bool_]:
    """Return bool[R]: rows of which an ExampleBatch would misread an unknown field as its own."""
    wrong = find_known(rows.data, rows.rest_start, rows.rest_stop, "ExampleBatch")
    extra = rows.extra_start, rows.extra_stop
    of_feature = find_known_by_kind(
        rows.data, *extra, rows.raw, "NamedFeatureList", "NamedRawFeatureList"
    )
    wrong[rows.entry_row[of_feature]] = True
    return wrong


_ENTRIES: Final = 1 << 17  # features of the rows of a batch that are taken at a time
REPEATED: Final = 16 << 20
"""Bytes that a batch says once and each of its rows has, of the rows that are taken at a time."""
_SEED: Final = secrets.randbits(63)


def index_examples(records: Records) -> tuple[Rows, list[Bad]]:
    """Return the rows of records that are Examples, and the bad records.

    Records that are encoded in an unusual way are first encoded again by protobuf.
    """
    rows, wrong, _ = index_examples_and_doubled(records)
    return rows, wrong


def index_examples_and_doubled(records: Records) -> tuple[Rows, list[Bad], NDArray[np.bool_]]:
    """Index Examples, and return which rows hold something in a field and in a feature: bool[R]."""
    counts = _count_features(records)
    many = counts > MAX_FEATURES
    wrong = [
        _too_many_features(records, int(number), int(counts[number]))
        for number in np.flatnonzero(many)
    ]
    records = records.select(~many) if wrong else records
    noted = _walk_records(records, int(counts[~many].sum()))
    odd = np.flatnonzero(noted.status == w.ODD)
    if len(odd):
        records, complaints = _reencode_records(records, odd, "Example")
        noted = _walk_records(records, int(_count_features(records).sum()))
        complaints = {
            int(number): records.bad(int(number), "message", UNSUPPORTED)
            for number in np.flatnonzero(noted.status == w.ODD)
        } | complaints
        wrong += complaints.values()
    rows, of_rows, doubled = assemble_rows(noted)
    return rows, sorted(wrong + of_rows, key=lambda bad: bad.record), doubled


def _count_features(records: Records) -> Places:
    counts = np.empty(len(records), np.int64)
    w.count_entries(records.data, records.start, records.stop, counts)
    return counts


def _too_many_features(records: Records, number: int, count: int) -> Bad:
    return records.bad(number, "features", f"{count:,} of them; at most {MAX_FEATURES:,} are read")


def _walk_records(records: Records, entries_at_most: int) -> WalkedRows:
    count = len(records)
    noted = w.Noted(
        first=np.empty(count + 1, np.int64),
        entries=np.empty((w.ENTRY, entries_at_most), np.int64),
        rows=np.empty((w.ROW, count), np.int64),
        status=np.empty(count, np.int8),
        name_places=np.empty((2, entries_at_most), np.int64),
        table=np.full(1 << max(4, (2 * entries_at_most).bit_length()), -1, np.int32),
    )
    names = w.walk_examples(records.data, records.start, records.stop, new_grammar(), noted, _SEED)
    if records.source.any():
        noted.rows[w.SOURCE] = np.where(records.source > 0, records.source, noted.rows[w.SOURCE])
    spans = noted.name_places[:, :names].T
    return WalkedRows(
        records=records,
        names=tuple(records.data[start:stop].tobytes() for start, stop in spans),
        first=noted.first,
        entries=noted.entries[:, : noted.first[-1]],
        rows=noted.rows,
        status=noted.status,
        row=np.full(count, -1, np.int64),
    )


def _reencode_records(
    records: Records, odd: Places, message: str
) -> tuple[Records, dict[int, Bad]]:
    """Records of which some were encoded by protobuf, and those of them that it cannot read."""
    from ingot.converters.recsys.monolith.contract import DecodeError, example_pb2

    kind = getattr(example_pb2, message)
    wrong, pieces = {}, {}
    for number in map(int, odd):
        try:
            pieces[number] = kind.FromString(records.message(number)).SerializeToString()
        except DecodeError:
            wrong[number] = records.bad(number, "message", f"it is not an {message}")
    return records.with_messages(pieces), wrong


def index_batches(records: Records, limit: int = _ENTRIES) -> Iterator[tuple[Rows, list[Bad]]]:
    """Yield the rows of records that are ExampleBatches, some at a time."""
    steps: list[_Step] = []
    memory_share = 0.0  # of what memory allows
    for one, count in enumerate(_count_features(records).tolist()):
        batch = _find_batch(records, one, count)
        if isinstance(batch, Bad):
            yield from _index_steps(steps)
            yield empty_rows(), [batch]
            memory_share = 0.0
            continue
        for row, many, share in batch.steps(limit):
            if steps and (memory_share + share > 1 or steps[0].batch.base is not batch.base):
                yield from _index_steps(steps)
                memory_share = 0.0
            steps.append(_Step(batch, row, many))
            memory_share += share
    yield from _index_steps(steps)


def _index_steps(steps: "list[_Step]") -> Iterator[tuple[Rows, list[Bad]]]:
    """The rows of steps that go together, as far as the first batch with a bad one, and so on."""
    if not steps:
        return
    counts, features_per_row = ([step.many for step in steps], [step.batch.each for step in steps])
    first = prefix_sums(np.repeat(features_per_row, counts))
    entries = np.empty((w.ENTRY, int(first[-1])), np.int64)
    row_parts = np.full((w.ROW, len(first) - 1), -1, np.int64)
    start, names, numbers = 0, dict[bytes, int](), dict[tuple[bytes, ...], list[int]]()
    for step in steps:
        batch_names = step.batch.names
        if batch_names not in numbers:
            numbers[batch_names] = [names.setdefault(name, len(names)) for name in batch_names]
        step.batch.take(
            numbers[batch_names], step.many, entries, int(first[start]), row_parts, start
        )
        start += step.many
    batch = steps[0].batch
    noted = WalkedRows(
        records=batch.base.select(np.repeat([step.batch.one for step in steps], counts)),
        names=tuple(names),
        first=first,
        entries=entries,
        rows=row_parts,
        status=np.zeros(start, np.int8),
        row=np.concatenate([np.arange(step.row, step.row + step.many) for step in steps]),
    )
    steps.clear()
    rows, wrong, _ = assemble_rows(noted)
    start = 0
    for record, bad_rows in groupby(wrong, lambda bad: bad.record):
        end = int(np.searchsorted(rows.record, record, side="right"))
        yield rows.part(start, end), list(bad_rows)
        start = end
    if start < len(rows) or not wrong:
        yield rows.part(start, len(rows)) if start else rows, []


def _find_batch(records: Records, number: int, count: int) -> "_BatchRows | Bad":
    """A record whose rows can be taken, or what is wrong with it."""
    if count > MAX_FEATURES:
        return _too_many_features(records, number, count)
    base = records
    walked = _walk_batch(base, number, count)
    if walked is None:
        batch = records.part(number, number + 1)
        base, complaints = _reencode_records(batch, np.zeros(1, np.int64), "ExampleBatch")
        number = 0
        walked = None if complaints else _walk_batch(base, 0, int(_count_features(base)[0]))
        if walked is None:
            return complaints.get(0, base.bad(0, "message", UNSUPPORTED))
    batch_rows = _BatchRows(base, number, *walked)
    wrong = batch_rows.find_wrong()
    return base.bad(number, *wrong) if wrong else batch_rows


def empty_rows() -> Rows:
    """Return no rows."""
    return index_examples(records_of_messages([]))[0]


def _walk_batch(batch: Records, number: int, count: int) -> tuple[NDArray[np.int64], Places] | None:
    lists = np.empty((b.LIST, count), np.int64)
    facts = np.empty(b.BATCH, np.int64)
    start, stop = int(batch.start[number]), int(batch.stop[number])
    message = message_shapes()[0]["ExampleBatch"]
    status = b.walk_lists(batch.data, start, stop, message, new_grammar(), lists, facts)
    return None if status == w.ODD else (lists[:, : facts[b.BATCH_LISTS]], facts)


class _BatchRows:
    """The rows of ExampleBatch `one` of some records, of which a kernel noted the lists."""

    def __init__(self, base: Records, number: int, lists: NDArray[np.int64], facts: Places) -> None:
        self.base, self.one = base, number
        self._lists, self._said = lists, facts
        gathered, first = gather_spans(base.data, lists[b.NAME_START], lists[b.NAME_STOP])
        split = _split_names if len(gathered) <= _FEW_NAMES else _split_names.__wrapped__
        self.names = split(gathered.tobytes(), first.tobytes())
        self.each = int((lists[b.SPECIAL] == 0).sum())  # features of a row
        self._size = int(facts[b.BATCH_SIZE])

    def steps(self, limit: int) -> Iterator[tuple[int, int, float]]:
        """Yield some rows at a time: the first, how many, and their share of the memory limit."""
        self._cursors = self._lists[b.FIRST].copy()
        # Rows that stand for few features, and few bytes that each of them repeats.
        lists, facts = self._lists, self._said
        lengths = lists[b.NAME_STOP] - lists[b.NAME_START]
        lengths += lists[w.EXTRA_STOP] - lists[w.EXTRA_START]
        lengths += np.where(lists[b.SHARED] == 1, lists[w.STOP] - lists[w.START], 0)
        rest = int(facts[b.BATCH_REST_STOP] - facts[b.BATCH_REST_START])
        repeated = int(lengths.sum()) + rest + len(self.base.sort_id(self.one))
        stride = int(max(1, min(limit // max(1, lists.shape[1]), REPEATED // max(1, repeated))))
        for row in range(0, self._size, stride):
            many = min(stride, self._size - row)
            yield row, many, many / stride

    def find_wrong(self) -> tuple[str, str] | None:
        """Return why the batch as a whole cannot be used: reason and detail; else None."""
        return self._check() or self._check_unknown()

    def _check(self) -> tuple[str, str] | None:
        """What does not fit together: reason and detail."""
        lists, names, size = self._lists, self.names, self._size
        if not 0 <= size <= MAX_BATCH_ROWS:
            return "batch_size", f"batch_size is {size:,}; it must be 0 to {MAX_BATCH_ROWS:,}"
        shared, counts = lists[b.SHARED] == 1, lists[b.COUNT]
        for number in np.flatnonzero(~shared & (counts != size)):
            counts_text = f"{counts[number]:,} features, batch_size is {size:,}"
            return "batch_size", f"{_quote_name(names[number])} has {counts_text}"
        for number in np.flatnonzero(shared & (counts == 0)):
            return "shared", f"{_quote_name(names[number])} is SHARED and has no feature"
        special = Counter(names[number] for number in np.flatnonzero(lists[b.SPECIAL]))
        for name, times in special.most_common(1):
            if times > 1:
                return "twice", f"{_quote_name(name)} occurs twice"
        return None

    def _check_unknown(self) -> tuple[str, str] | None:
        """Unknown fields that the Examples of a batch would know: reason and detail."""
        data, lists, facts = self.base.data, self._lists, self._said
        start, stop = facts[b.BATCH_REST_START :][:1], facts[b.BATCH_REST_STOP :][:1]
        is_known = find_known(data, start, stop, "Example").any()
        extra, raw = (lists[w.EXTRA_START], lists[w.EXTRA_STOP]), lists[w.RAW] == 1
        is_known |= find_known_by_kind(data, *extra, raw, "NamedFeature", "NamedRawFeature").any()
        if is_known:
            return "unknown", "an Example would read an unknown field as one of its own"
        if (extra[1] > extra[0])[lists[b.SPECIAL] > 0].any():
            return "unknown", "a list that describes the rows has unknown fields beside it"
        return None

    def take(
        self,
        numbers: list[int],
        count: int,
        entries: NDArray[np.int64],
        entry: int,
        rows: NDArray[np.int64],
        first_row: int,
    ) -> None:
        """Note the next rows, from an entry and a row on; lists have names of these numbers."""
        facts, selection = self._said, slice(first_row, first_row + count)
        self._lists[w.NAME] = numbers
        rows[w.WEIGHT, selection] = 0
        rows[w.SOURCE, selection] = self.base.source[self.one] or facts[b.BATCH_SOURCE]
        rest = facts[b.BATCH_REST_START : b.BATCH_REST_STOP + 1, None]
        rows[w.REST : w.REST + 2, selection] = rest
        cursors = self._cursors
        b.take_batch_rows(
            self.base.data, self._lists, cursors, count, entries, entry, rows, first_row
        )


_FEW_NAMES: Final = 1 << 16  # bytes


@lru_cache(maxsize=8)
def _split_names(text: bytes, offsets: bytes) -> tuple[bytes, ...]:
    """The names of lists: most batches have those of the batch before."""
    return tuple(
        text[start:stop] for start, stop in pairwise(np.frombuffer(offsets, np.int64).tolist())
    )


class _Step(NamedTuple):
    """Rows of a batch: the first, and how many."""

    batch: _BatchRows
    row: int
    many: int


def _quote_name(name: bytes) -> str:
    return repr(name.decode())[:80]


# Instances, the older message: protobuf makes Examples of them first.
_NO_PLACE: Final = ("dense", "label_tag", "next_fid")
_KINDS: Final = {
    "fid": "fid_v2_list",
    "float_value": "float_list",
    "int64_value": "int64_list",
    "bytes_value": "bytes_list",
    "fid_list": "fid_v2_lists",
    "float_list": "float_lists",
    "int64_list": "int64_lists",
    "bytes_list": "bytes_lists",
}
"""The fields of an Instance's feature, in the order in which Monolith looks for one that is set,
and the kinds of Feature that they become."""
_SLOT_BITS: Final = 54  # below the slot of a fid of version 1


def index_instances(records: Records, lost: Counter[str]) -> tuple[Rows, list[Bad]]:
    """Return the rows of records that are Instances, as Monolith makes Examples of them.

    `value` becomes a float_list, fids go to `fc_slot_<slot>` by their slots (version 1), each
    feature becomes the kind of its value, a missing instance_weight becomes 1; ids of features
    count from 0. `lost` counts the Instances by fields for which an Example has no place.
    """
    messages_or_none = [_convert_instance(records, number, lost) for number in range(len(records))]
    messages = {
        number: message for number, message in enumerate(messages_or_none) if message is not None
    }
    wrong = [
        records.bad(number, "message", "it is not an Instance")
        for number in range(len(records))
        if number not in messages
    ]
    sort_ids, first = gather_spans(records.data, records.sort_start, records.sort_stop)
    without_messages = replace(records, data=sort_ids, sort_start=first[:-1], sort_stop=first[1:])
    examples = without_messages.with_messages(messages).select(np.array(list(messages), np.int64))
    rows, more_wrong = index_examples(examples)
    return rows, sorted(wrong + more_wrong, key=lambda bad: bad.record)


def _convert_instance(records: Records, position: int, lost: Counter[str]) -> bytes | None:
    """An Instance as an Example, serialized; None where it is none."""
    from ingot.converters.recsys.monolith.contract import DecodeError, example_pb2, instance_pb2

    try:
        instance = instance_pb2.Instance.FromString(records.message(position))
        lost.update(_find_lost_fields(instance))
        example = example_pb2.Example(
            label=instance.label,
            instance_weight=instance.instance_weight if instance.HasField("instance_weight") else 1,
            data_source_key=instance.data_source_key,
        )
        if instance.HasField("line_id"):
            example.line_id.MergeFromString(instance.line_id.SerializeToString())
        for number, (name, kind, values) in enumerate(_instance_features(instance)):
            feature = example.named_feature.add(name=name, id=number).feature
            if kind is None:
                feature.SetInParent()
            elif kind.endswith("lists"):
                for value in values:
                    getattr(feature, kind).list.add().value.extend(value.value)
            else:
                getattr(feature, kind).value.extend(values)
        return bytes(example.SerializeToString())
    except (DecodeError, UnicodeDecodeError, ValueError):  # a name that is no text
        return None


def _instance_features(instance: Any) -> Iterator[tuple[str, str | None, Any]]:  # noqa: ANN401
    """Name, kind and values of each feature; a kind of None is an unset one."""
    if instance.value:
        yield "value", "float_list", instance.value
    slots: dict[int, list[int]] = {}
    for fid in instance.fid:
        slots.setdefault(fid >> _SLOT_BITS, []).append(fid)
    for slot, fids in slots.items():
        yield f"fc_slot_{slot}", "fid_v1_list", fids
    for feature in instance.feature:
        kind = next((name for name in _KINDS if len(getattr(feature, name))), None)
        yield feature.name, _KINDS[kind] if kind else None, getattr(feature, kind or "fid")


def _find_lost_fields(instance: Any) -> set[str]:  # noqa: ANN401
    """What an Instance has that an Example of it has not."""
    lost = {name for name in _NO_PLACE if len(getattr(instance, name))}
    if any(sum(len(getattr(one, name)) > 0 for name in _KINDS) > 1 for one in instance.feature):
        lost.add("feature of several kinds")
    # Its LineId is copied whole, so unknown fields in it are kept.
    copy = type(instance)()
    copy.CopyFrom(instance)
    copy.ClearField("line_id")
    before = copy.ByteSize()
    copy.DiscardUnknownFields()
    if copy.ByteSize() != before:
        lost.add("unknown fields")
    return lost
