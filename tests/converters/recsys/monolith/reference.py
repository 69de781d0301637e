"""The rules of Monolith's messages told with protobuf's own objects, one row at a time.

Nothing of the package is used but the generated code and the fixed names: what the kernels make of
bytes is held against this. Source: `ExampleBatchToExample` and `ExtendExample` as
`docs/monolith.md` tells them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from ingot.converters.recsys.monolith.contract import (
    INSTANCE_WEIGHT,
    LABEL,
    LINE_ID,
    MAX_BATCH_ROWS,
    MAX_FEATURES,
)
from ingot.schemas.monolith.example_pb2 import (
    SHARED,
    Example,
    ExampleBatch,
    Feature,
    NamedFeature,
    NamedFeatureList,
    NamedRawFeatureList,
)
from ingot.schemas.monolith.instance_pb2 import Instance, InstanceFeature
from ingot.schemas.monolith.line_id_pb2 import LineId

SPECIAL = (LINE_ID, LABEL, INSTANCE_WEIGHT)
LABELS, WEIGHT = 101, 102  # fields of Example
ONE = b"\x00\x00\x80\x3f"
M = TypeVar("M", bound=Message)


class Field(NamedTuple):
    """A field as it stands in a message: number, wire type, its value, all its bytes."""

    number: int
    wire: int
    value: bytes
    whole: bytes


class Refused(Exception):  # noqa: N818 - a judgement
    """A record or row cannot be used, for any of these reasons."""

    def __init__(self, reasons: Iterable[str]) -> None:
        super().__init__(*reasons)
        self.reasons = set(reasons)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message that protobuf reads."""
    at = 0
    while at < len(data):
        tag, begin = varint(data, at)
        value, end = _value(data, begin, tag)
        yield Field(tag >> 3, tag & 7, value, data[at:end])
        at = end


def _value(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    wire, end = tag & 7, at
    if wire == 2:
        size, at = varint(data, at)
        end = at + size
    elif wire == 3:
        while data[end] & 7 != 4 or varint(data, end)[0] >> 3 != tag >> 3:
            inner, begin = varint(data, end)
            end = _value(data, begin, inner)[1]
        return data[at:end], varint(data, end)[1]
    elif wire == 0:
        end = varint(data, at)[1]
    else:
        end = at + (8 if wire == 1 else 4)
    return data[at:end], end


def parsed(kind: type[M], data: bytes) -> M | None:
    """The message; None where protobuf refuses it."""
    try:
        return kind.FromString(data)
    except DecodeError:
        return None


def unknown(message: Message) -> bytes:
    """The unknown fields of a message itself, as they came."""
    rest = type(message)()
    rest.CopyFrom(message)
    for known, _ in rest.ListFields():
        rest.ClearField(known.name)
    return rest.SerializeToString()


def knows(kind: type[Message], rest: bytes) -> bool:
    """Whether a message would take any of these fields for its own."""
    message = kind()
    for one in fields(rest):
        message.Clear()
        try:
            message.MergeFromString(one.whole)
        except DecodeError:
            return True
        if unknown(message) != one.whole:
            return True
    return False


@dataclass
class Said:
    """What special features of a row say: a LineId's bytes, labels' bytes, a weight's bytes."""

    wrong: set[str] = field(default_factory=set)
    line: bytes | None = None
    label: bytes | None = None
    weight: bytes | None = None
    names: Counter[str] = field(default_factory=Counter)

    def take(self, name: str, feature: Feature) -> None:
        """Add a special feature."""
        if self.names[name]:
            self.wrong.add("twice")
        self.names[name] += 1
        plain = Feature()
        plain.CopyFrom(feature)
        plain.DiscardUnknownFields()
        strange = plain.SerializeToString() != feature.SerializeToString()
        _TAKERS[name](self, feature, strange)

    def _line(self, feature: Feature, strange: bool) -> None:
        values = feature.bytes_list.value
        if strange or len(values) != 1 or parsed(LineId, values[0]) is None:
            self.wrong.add("line_id")
        else:
            self.line = values[0]

    def _labels(self, feature: Feature, strange: bool) -> None:
        if strange or feature.WhichOneof("type") not in (None, "float_list"):
            self.wrong.add("label")
        else:
            self.label = floats(feature)

    def _weight(self, feature: Feature, strange: bool) -> None:
        wrong = strange or feature.WhichOneof("type") not in (None, "float_list")
        if wrong or len(feature.float_list.value) > 1:
            self.wrong.add("weight")
        else:
            self.weight = floats(feature) or ONE


_TAKERS = {LINE_ID: Said._line, LABEL: Said._labels, INSTANCE_WEIGHT: Said._weight}


def floats(feature: Feature) -> bytes:
    """The values of a float_list, four bytes each: Python's floats would change some NaNs."""
    return b"".join(one.value for one in fields(feature.float_list.SerializeToString()))


def same(one: bytes, other: bytes, kind: type[Message]) -> bool:
    """Whether two serialized messages mean the same."""
    return canonical(kind.FromString(one)) == canonical(kind.FromString(other))


def canonical(message: Message) -> bytes:
    """A message in bytes that equal messages share; NaN is equal to itself."""
    return message.SerializeToString(deterministic=True)


def _put(example: Example, number: int, value: bytes) -> None:
    """Set a field of an Example from its bytes."""
    if value:
        tag = number << 3 | (2 if number == LABELS else 5)
        size = size_bytes(len(value)) if number == LABELS else b""
        example.MergeFromString(size_bytes(tag) + size + value)


def size_bytes(value: int) -> bytes:
    """A number as a varint."""
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _field_bytes(example: Example, number: int) -> bytes:
    wire = 2 if number == LABELS else 5
    data = example.SerializeToString()
    return b"".join(one.value for one in fields(data) if (one.number, one.wire) == (number, wire))


def row_of(example: Example, source: int = 0) -> Example:
    """An Example whose LineId, labels and weight stand in fields.

    Raises:
        Refused: they cannot be read, or are said twice.
    """
    said, out = Said(), Example()
    out.CopyFrom(example)
    del out.named_feature[:]
    for named in example.named_feature:
        if named.name in SPECIAL:
            said.take(named.name, named.feature)
            said.wrong |= {"unknown"} if unknown(named) else set()
        else:
            out.named_feature.append(named)
    out.data_source_key = source or example.data_source_key
    _merge(out, said)
    if said.wrong:
        raise Refused(said.wrong)
    return out


def _merge(out: Example, said: Said) -> None:
    """Put what features say into fields, where these say nothing else."""
    if said.line is not None:
        if not out.HasField("line_id"):
            out.line_id.MergeFromString(said.line)
        elif not same(out.line_id.SerializeToString(), said.line, LineId):
            said.wrong.add("twice")
    for number, value in ((LABELS, said.label), (WEIGHT, said.weight)):
        if value is None:
            continue
        there = _field_bytes(out, number)
        if not there:
            _put(out, number, value if value.strip(b"\0") or number == LABELS else b"")
        elif there != value:
            said.wrong.add("twice")


def rows_of_batch(batch: ExampleBatch, source: int = 0) -> list[Example | set[str]]:
    """The rows of an ExampleBatch; the possible reasons for those that cannot be used.

    Raises:
        Refused: the whole batch cannot be used.
    """
    lists = [*batch.named_feature_list, *batch.named_raw_feature_list]
    wrong = set().union(*(_wrong_list(one, batch.batch_size) for one in lists))
    wrong |= {"batch_size"} if not 0 <= batch.batch_size <= MAX_BATCH_ROWS else set()
    wrong |= {"message"} if any(is_split(one) for one in lists) else set()
    wrong |= {"features"} if len(lists) > MAX_FEATURES else set()
    names = Counter(one.name for one in batch.named_feature_list)
    wrong |= {"twice"} if any(names[name] > 1 for name in SPECIAL) else set()
    wrong |= {"unknown"} if knows(Example, unknown(batch)) else set()
    if wrong:
        raise Refused(wrong)
    return [_row_of_batch(batch, row, source) for row in range(batch.batch_size)]


_OF_INSTANCE = (
    ("fid", "fid_v2_list"),
    ("float_value", "float_list"),
    ("int64_value", "int64_list"),
    ("bytes_value", "bytes_list"),
    ("fid_list", "fid_v2_lists"),
    ("float_list", "float_lists"),
    ("int64_list", "int64_lists"),
    ("bytes_list", "bytes_lists"),
)


def example_of(instance: Instance) -> Example:
    """An Instance as an Example, as `InstanceToExample` does it.

    Raises:
        Refused: a name is no UTF-8.
    """
    example = Example(label=instance.label, data_source_key=instance.data_source_key)
    example.instance_weight = (
        instance.instance_weight if instance.HasField("instance_weight") else 1
    )
    if instance.HasField("line_id"):
        example.line_id.CopyFrom(instance.line_id)
    if instance.value:
        example.named_feature.add(name="value").feature.float_list.value.extend(instance.value)
    slots: dict[int, Any] = {}
    for fid in instance.fid:
        slot = fid >> 54
        if slot not in slots:
            slots[slot] = example.named_feature.add(name=f"fc_slot_{slot}").feature.fid_v1_list
        slots[slot].value.append(fid)
    for each in instance.feature:
        _add_feature(example, each)
    for number, named in enumerate(example.named_feature):
        named.id = number
    return example


def _add_feature(example: Example, feature: InstanceFeature) -> None:
    try:
        named = example.named_feature.add(name=feature.name)
    except (UnicodeDecodeError, ValueError):
        raise Refused(["message"]) from None
    named.feature.SetInParent()
    for name, kind in _OF_INSTANCE:
        values = getattr(feature, name)
        if not values:
            continue
        if kind.endswith("lists"):
            lists = getattr(named.feature, kind)
            for one in values:
                lists.list.add(value=one.value)
        else:
            getattr(named.feature, kind).value.extend(values)
        return


AnyList = NamedFeatureList | NamedRawFeatureList


def _wrong_list(one: AnyList, size: int) -> set[str]:
    raw = isinstance(one, NamedRawFeatureList)
    count = len(_features(one))
    extra = unknown(one) if raw else sorted_id_of(one)[1]
    target = NamedFeature if not raw else type(Example().named_raw_feature.add())
    lost = not raw and one.name in SPECIAL and extra
    reasons = {"unknown"} if lost or knows(target, extra) else set()
    if one.type == SHARED:
        return reasons | ({"shared"} if count == 0 else set())
    return reasons | ({"batch_size"} if count != size else set())


def is_split(one: AnyList) -> bool:
    """Whether a sorted_id stands between unknown fields of a list, which is not supported."""
    known = [each.number == 6 and each.wire == 0 for each in fields(unknown(one))]
    while known and known[0]:
        known.pop(0)
    while known and known[-1]:
        known.pop()
    return any(known) and not isinstance(one, NamedRawFeatureList)


def _features(one: AnyList) -> Any:
    return one.raw_feature if isinstance(one, NamedRawFeatureList) else one.feature


def sorted_id_of(one: Message) -> tuple[int, bytes]:
    """The sorted_id of a list, which has it as an unknown field, and its other unknown fields."""
    found, rest = 0, b""
    for each in fields(unknown(one)):
        if each.number == 6 and each.wire == 0:
            found = int32(varint(each.value, 0)[0])
        else:
            rest += each.whole
    return found, rest


def int32(value: int) -> int:
    """A number as an int32 reads it."""
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def _row_of_batch(batch: ExampleBatch, row: int, source: int) -> Example | set[str]:
    example = Example(data_source_key=batch.data_source_key)
    for one in batch.named_feature_list:
        sorted_id, extra = sorted_id_of(one)
        named = example.named_feature.add(name=one.name, id=one.id, sorted_id=sorted_id)
        named.feature.CopyFrom(one.feature[0 if one.type == SHARED else row])
        named.MergeFromString(extra)
    for each in batch.named_raw_feature_list:
        raw = example.named_raw_feature.add(name=each.name, id=each.id)
        raw.raw_feature.CopyFrom(each.raw_feature[0 if each.type == SHARED else row])
        raw.MergeFromString(unknown(each))
    example.MergeFromString(unknown(batch))
    try:
        return row_of(example, source)
    except Refused as refused:
        return refused.reasons


def fits_batches(example: Example) -> bool:
    """Whether an ExampleBatch can hold a row: it knows none of its unknown fields."""
    lists = [knows(NamedFeatureList, unknown(one)) for one in example.named_feature]
    raws = [knows(NamedRawFeatureList, unknown(one)) for one in example.named_raw_feature]
    return not (knows(ExampleBatch, unknown(example)) or any(lists) or any(raws))


Key = tuple[bool, str, int]


def _keyed(example: Example) -> dict[Key, Any]:
    """The features of a row by raw, name and how often the name was there before."""
    seen: Counter[tuple[bool, str]] = Counter()
    keyed: dict[Key, Any] = {}
    for raw, each in ((False, example.named_feature), (True, example.named_raw_feature)):
        for named in each:
            keyed[raw, named.name, seen[raw, named.name]] = named
            seen[raw, named.name] += 1
    return keyed


def _once(named: Any) -> tuple[int, int, bytes]:
    """What a list says once for the features of all rows."""
    return named.id, getattr(named, "sorted_id", 0), unknown(named)


def groups(rows: list[Example], size: int) -> Iterator[list[Example]]:
    """Which rows, without special features, go into one batch; sizes in bytes do not count."""
    group: list[Example] = []
    lists: dict[Key, tuple[int, int, bytes]] = {}
    for row in rows:
        once = {key: _once(named) for key, named in _keyed(row).items()}
        fits = all(lists.get(key, said) == said for key, said in once.items())
        if group and not (len(group) < size and fits and _agree(group[0], row)):
            yield group
            group, lists = [], {}
        group.append(row)
        lists |= {**once, **lists}
    if group:
        yield group


def _agree(one: Example, other: Example) -> bool:
    """Whether two rows say the same of what a batch says once."""
    keys = one.data_source_key == other.data_source_key
    lines = one.HasField("line_id") == other.HasField("line_id")
    return keys and lines and unknown(one) == unknown(other)


def batch_of(group: list[Example], shared: bool = True) -> ExampleBatch:
    """The ExampleBatch of rows that fit together; its lists in no order that counts."""
    batch = ExampleBatch(batch_size=len(group), data_source_key=group[0].data_source_key)
    keyed = [_keyed(row) for row in group]
    for key in dict.fromkeys(key for row in keyed for key in row):
        _add_list(batch, key, [row.get(key) for row in keyed], shared)
    _add_said(batch, group)
    batch.MergeFromString(unknown(group[0]))
    return batch


def _add_list(batch: ExampleBatch, key: Key, features: list[Any], shared: bool) -> None:
    raw, name, _ = key
    one = next(named for named in features if named is not None)
    lists = batch.named_raw_feature_list if raw else batch.named_feature_list
    out: Any = lists.add(name=name, id=one.id)
    what = "raw_feature" if raw else "feature"
    contents = [
        b"" if each is None else getattr(each, what).SerializeToString() for each in features
    ]
    if shared and len(features) > 1 and None not in features and len(set(contents)) == 1:
        out.type = SHARED
        contents = contents[:1]
    for content in contents:
        getattr(out, what).add().MergeFromString(content)
    if not raw and one.sorted_id:
        out.MergeFromString(b"\x30" + size_bytes(one.sorted_id & 0xFFFFFFFFFFFFFFFF))
    out.MergeFromString(unknown(one))


def _add_said(batch: ExampleBatch, group: list[Example]) -> None:
    """The LineIds, labels and weights as lists; a weight of 0 is what none reads as."""
    weights = [_field_bytes(row, WEIGHT) for row in group]
    if group[0].HasField("line_id"):
        out = batch.named_feature_list.add(name=LINE_ID)
        for row in group:
            out.feature.add().bytes_list.value.append(row.line_id.SerializeToString())
    if any(row.label for row in group):
        _add_floats(batch, LABEL, [_field_bytes(row, LABELS) for row in group])
    if any(weights):
        _add_floats(batch, INSTANCE_WEIGHT, [weight or bytes(4) for weight in weights])


def _add_floats(batch: ExampleBatch, name: str, values: list[bytes]) -> None:
    out = batch.named_feature_list.add(name=name)
    for value in values:
        feature = out.feature.add()
        if value:
            feature.float_list.MergeFromString(b"\x0a" + size_bytes(len(value)) + value)


def filled(example: Example) -> Example:
    """An Example in which a named feature without a feature has an unset one."""
    out = Example()
    out.CopyFrom(example)
    for named in out.named_feature:
        named.feature.SetInParent()
    for raw in out.named_raw_feature:
        raw.raw_feature.SetInParent()
    return out


def in_any_order(message: Example | ExampleBatch) -> list[bytes]:
    """What a message says, whatever the order of its features by name; LineIds by meaning."""
    left = type(message)()
    left.CopyFrom(message)
    said: list[bytes] = []
    for name in ("named_feature", "named_raw_feature"):
        name += "_list" if isinstance(message, ExampleBatch) else ""
        each = sorted(getattr(left, name), key=lambda named: named.name)
        said += [canonical(_plain_lines(one)) for one in each if not _is_filler(one)]
        left.ClearField(name)
    return [canonical(left), *said]


def _plain_lines(one: Any) -> Any:
    if isinstance(one, NamedFeatureList) and one.name == LINE_ID:
        for feature in one.feature:
            value = feature.bytes_list.value[0]
            feature.bytes_list.value[0] = canonical(LineId.FromString(value))
    return one


def _is_filler(one: Any) -> bool:
    """Weights of 0 for every row say nothing."""
    weights = isinstance(one, NamedFeatureList) and one.name == INSTANCE_WEIGHT
    return weights and not any(floats(feature).strip(b"\0") for feature in one.feature)
