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
    found = np.zeros(len(start), np.bool_)
    if (start != stop).any():
        find_known_fields(data, start, stop, fields[numbers[message]], found)
    return found


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
    wrong = [_too_many_features(records, int(at), int(counts[at])) for at in np.flatnonzero(many)]
    records = records.select(~many) if wrong else records
    noted = _walk_records(records, int(counts[~many].sum()))
    odd = np.flatnonzero(noted.status == w.ODD)
    if len(odd):
        records, complaints = _reencode_records(records, odd, "Example")
        noted = _walk_records(records, int(_count_features(records).sum()))
        complaints = {
            int(at): records.bad(int(at), "message", UNSUPPORTED)
            for at in np.flatnonzero(noted.status == w.ODD)
        } | complaints
        wrong += complaints.values()
    rows, of_rows, doubled = assemble_rows(noted)
    return rows, sorted(wrong + of_rows, key=lambda bad: bad.record), doubled


def _count_features(records: Records) -> Places:
    counts = np.empty(len(records), np.int64)
    w.count_entries(records.data, records.start, records.stop, counts)
    return counts


def _too_many_features(records: Records, one: int, count: int) -> Bad:
    return records.bad(one, "features", f"{count:,} of them; at most {MAX_FEATURES:,} are read")


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
    for one in map(int, odd):
        try:
            pieces[one] = kind.FromString(records.message(one)).SerializeToString()
        except DecodeError:
            wrong[one] = records.bad(one, "message", f"it is not an {message}")
    return records.with_messages(pieces), wrong


def index_batches(records: Records, most: int = _ENTRIES) -> Iterator[tuple[Rows, list[Bad]]]:
    """Yield the rows of records that are ExampleBatches, some at a time."""
    taken: list[_Step] = []
    held = 0.0  # of what memory allows
    for one, count in enumerate(_count_features(records).tolist()):
        found = _find_batch(records, one, count)
        if isinstance(found, Bad):
            yield from _index_steps(taken)
            yield empty_rows(), [found]
            held = 0.0
            continue
        for row, many, share in found.steps(most):
            if taken and (held + share > 1 or taken[0].batch.base is not found.base):
                yield from _index_steps(taken)
                held = 0.0
            taken.append(_Step(found, row, many))
            held += share
    yield from _index_steps(taken)


def _index_steps(taken: "list[_Step]") -> Iterator[tuple[Rows, list[Bad]]]:
    """The rows of steps that go together, as far as the first batch with a bad one, and so on."""
    if not taken:
        return
    counts, each = ([step.many for step in taken], [step.batch.each for step in taken])
    first = prefix_sums(np.repeat(each, counts))
    entries = np.empty((w.ENTRY, int(first[-1])), np.int64)
    said = np.full((w.ROW, len(first) - 1), -1, np.int64)
    begin, names, numbers = 0, dict[bytes, int](), dict[tuple[bytes, ...], list[int]]()
    for step in taken:
        found = step.batch.names
        if found not in numbers:
            numbers[found] = [names.setdefault(name, len(names)) for name in found]
        step.batch.take(numbers[found], step.many, entries, int(first[begin]), said, begin)
        begin += step.many
    batch = taken[0].batch
    noted = WalkedRows(
        records=batch.base.select(np.repeat([step.batch.one for step in taken], counts)),
        names=tuple(names),
        first=first,
        entries=entries,
        rows=said,
        status=np.zeros(begin, np.int8),
        row=np.concatenate([np.arange(step.row, step.row + step.many) for step in taken]),
    )
    taken.clear()
    rows, wrong, _ = assemble_rows(noted)
    begin = 0
    for record, some in groupby(wrong, lambda bad: bad.record):
        end = int(np.searchsorted(rows.record, record, side="right"))
        yield rows.part(begin, end), list(some)
        begin = end
    if begin < len(rows) or not wrong:
        yield rows.part(begin, len(rows)) if begin else rows, []


def _find_batch(records: Records, one: int, count: int) -> "_BatchRows | Bad":
    """A record whose rows can be taken, or what is wrong with it."""
    if count > MAX_FEATURES:
        return _too_many_features(records, one, count)
    base = records
    walked = _walk_batch(base, one, count)
    if walked is None:
        batch = records.part(one, one + 1)
        base, complaints = _reencode_records(batch, np.zeros(1, np.int64), "ExampleBatch")
        one = 0
        walked = None if complaints else _walk_batch(base, 0, int(_count_features(base)[0]))
        if walked is None:
            return complaints.get(0, base.bad(0, "message", UNSUPPORTED))
    found = _BatchRows(base, one, *walked)
    wrong = found.find_wrong()
    return base.bad(one, *wrong) if wrong else found


def empty_rows() -> Rows:
    """Return no rows."""
    return index_examples(records_of_messages([]))[0]


def _walk_batch(batch: Records, one: int, count: int) -> tuple[NDArray[np.int64], Places] | None:
    lists = np.empty((b.LIST, count), np.int64)
    said = np.empty(b.BATCH, np.int64)
    start, stop = int(batch.start[one]), int(batch.stop[one])
    message = message_shapes()[0]["ExampleBatch"]
    status = b.walk_lists(batch.data, start, stop, message, new_grammar(), lists, said)
    return None if status == w.ODD else (lists[:, : said[b.BATCH_LISTS]], said)


class _BatchRows:
    """The rows of ExampleBatch `one` of some records, of which a kernel noted the lists."""

    def __init__(self, base: Records, one: int, lists: NDArray[np.int64], said: Places) -> None:
        self.base, self.one = base, one
        self._lists, self._said = lists, said
        gathered, first = gather_spans(base.data, lists[b.NAME_START], lists[b.NAME_STOP])
        split = _split_names if len(gathered) <= _FEW_NAMES else _split_names.__wrapped__
        self.names = split(gathered.tobytes(), first.tobytes())
        self.each = int((lists[b.SPECIAL] == 0).sum())  # features of a row
        self._size = int(said[b.BATCH_SIZE])

    def steps(self, most: int) -> Iterator[tuple[int, int, float]]:
        """Yield some rows at a time: the first, how many, and their share of the memory limit."""
        self._cursors = self._lists[b.FIRST].copy()
        # Rows that stand for few features, and few bytes that each of them repeats.
        lists, said = self._lists, self._said
        lengths = lists[b.NAME_STOP] - lists[b.NAME_START]
        lengths += lists[w.EXTRA_STOP] - lists[w.EXTRA_START]
        lengths += np.where(lists[b.SHARED] == 1, lists[w.STOP] - lists[w.START], 0)
        rest = int(said[b.BATCH_REST_STOP] - said[b.BATCH_REST_START])
        repeated = int(lengths.sum()) + rest + len(self.base.sort_id(self.one))
        each = int(max(1, min(most // max(1, lists.shape[1]), REPEATED // max(1, repeated))))
        for row in range(0, self._size, each):
            many = min(each, self._size - row)
            yield row, many, many / each

    def find_wrong(self) -> tuple[str, str] | None:
        """Return why the batch as a whole cannot be used: reason and detail; else None."""
        return self._check() or self._check_unknown()

    def _check(self) -> tuple[str, str] | None:
        """What does not fit together: reason and detail."""
        lists, names, size = self._lists, self.names, self._size
        if not 0 <= size <= MAX_BATCH_ROWS:
            return "batch_size", f"batch_size is {size:,}; it must be 0 to {MAX_BATCH_ROWS:,}"
        shared, counts = lists[b.SHARED] == 1, lists[b.COUNT]
        for at in np.flatnonzero(~shared & (counts != size)):
            found = f"{counts[at]:,} features, batch_size is {size:,}"
            return "batch_size", f"{_quote_name(names[at])} has {found}"
        for at in np.flatnonzero(shared & (counts == 0)):
            return "shared", f"{_quote_name(names[at])} is SHARED and has no feature"
        special = Counter(names[at] for at in np.flatnonzero(lists[b.SPECIAL]))
        for name, times in special.most_common(1):
            if times > 1:
                return "twice", f"{_quote_name(name)} occurs twice"
        return None

    def _check_unknown(self) -> tuple[str, str] | None:
        """Unknown fields that the Examples of a batch would know: reason and detail."""
        data, lists, said = self.base.data, self._lists, self._said
        start, stop = said[b.BATCH_REST_START :][:1], said[b.BATCH_REST_STOP :][:1]
        found = find_known(data, start, stop, "Example").any()
        extra, raw = (lists[w.EXTRA_START], lists[w.EXTRA_STOP]), lists[w.RAW] == 1
        found |= find_known_by_kind(data, *extra, raw, "NamedFeature", "NamedRawFeature").any()
        if found:
            return "unknown", "an Example would read an unknown field as one of its own"
        if (extra[1] > extra[0])[lists[b.SPECIAL] > 0].any():
            return "unknown", "a list that describes the rows has unknown fields beside it"
        return None

    def take(
        self,
        numbers: list[int],
        count: int,
        entries: NDArray[np.int64],
        at: int,
        rows: NDArray[np.int64],
        begin: int,
    ) -> None:
        """Note the next rows, from an entry and a row on; lists have names of these numbers."""
        said, where = self._said, slice(begin, begin + count)
        self._lists[w.NAME] = numbers
        rows[w.WEIGHT, where] = 0
        rows[w.SOURCE, where] = self.base.source[self.one] or said[b.BATCH_SOURCE]
        rest = said[b.BATCH_REST_START : b.BATCH_REST_STOP + 1, None]
        rows[w.REST : w.REST + 2, where] = rest
        cursors = self._cursors
        b.take_batch_rows(self.base.data, self._lists, cursors, count, entries, at, rows, begin)


_FEW_NAMES: Final = 1 << 16  # bytes


@lru_cache(maxsize=8)
def _split_names(text: bytes, ends: bytes) -> tuple[bytes, ...]:
    """The names of lists: most batches have those of the batch before."""
    return tuple(
        text[start:stop] for start, stop in pairwise(np.frombuffer(ends, np.int64).tolist())
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
    found = [_convert_instance(records, at, lost) for at in range(len(records))]
    messages = {at: message for at, message in enumerate(found) if message is not None}
    wrong = [
        records.bad(at, "message", "it is not an Instance")
        for at in range(len(records))
        if at not in messages
    ]
    sort_ids, first = gather_spans(records.data, records.sort_start, records.sort_stop)
    bare = replace(records, data=sort_ids, sort_start=first[:-1], sort_stop=first[1:])
    examples = bare.with_messages(messages).select(np.array(list(messages), np.int64))
    rows, more = index_examples(examples)
    return rows, sorted(wrong + more, key=lambda bad: bad.record)


def _convert_instance(records: Records, at: int, lost: Counter[str]) -> bytes | None:
    """An Instance as an Example, serialized; None where it is none."""
    from ingot.converters.recsys.monolith.contract import DecodeError, example_pb2, instance_pb2

    try:
        instance = instance_pb2.Instance.FromString(records.message(at))
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
        given = next((name for name in _KINDS if len(getattr(feature, name))), None)
        yield feature.name, _KINDS[given] if given else None, getattr(feature, given or "fid")


def _find_lost_fields(instance: Any) -> set[str]:  # noqa: ANN401
    """What an Instance has that an Example of it has not."""
    found = {name for name in _NO_PLACE if len(getattr(instance, name))}
    if any(sum(len(getattr(one, name)) > 0 for name in _KINDS) > 1 for one in instance.feature):
        found.add("feature of several kinds")
    # Its LineId is copied whole, so unknown fields in it are kept.
    copy = type(instance)()
    copy.CopyFrom(instance)
    copy.ClearField("line_id")
    before = copy.ByteSize()
    copy.DiscardUnknownFields()
    if copy.ByteSize() != before:
        found.add("unknown fields")
    return found
