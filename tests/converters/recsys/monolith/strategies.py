"""Messages of every shape, the same message in other bytes, and damage to bytes.

Everything is drawn from a `Random`: hypothesis's own, which it can make smaller examples of, in
property tests; one of a seed where hundreds of thousands of streams are made.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.contract import FEATURE_KINDS, INSTANCE_WEIGHT, LABEL, LINE_ID
from ingot.schemas.monolith.example_pb2 import (
    SHARED,
    Example,
    ExampleBatch,
    Feature,
    NamedFeature,
    NamedFeatureList,
    RawFeature,
)
from ingot.schemas.monolith.instance_pb2 import Instance
from ingot.schemas.monolith.line_id_pb2 import LineId
from tests.converters.recsys.monolith.reference import fields, size_bytes, unknown

T = TypeVar("T")
M = TypeVar("M", bound=Message)

NAMES: Final = (
    "user",
    "item",
    "käse",
    "",
    "𝄞",
    "a\0b",
    "\x1b[31m",
    "f" * 130,
    LINE_ID + "2",
    "fc_1",
)
NUMBERS: Final = (1, 2, 3, 4, 5, 6, 16, 60, 99, 100, 101, 102, 103, 235, 256, 604, (1 << 29) - 1)
KINDS: Final = tuple(name for number, name in FEATURE_KINDS.items() if number)
FLOATS: Final = (0.0, -0.0, 1.0, 0.5, float("inf"), float("nan"), 1e-45)
_NUMERIC: Final = {
    FieldDescriptor.TYPE_FIXED64: 1,
    FieldDescriptor.TYPE_DOUBLE: 1,
    FieldDescriptor.TYPE_FLOAT: 5,
}


def made(maker: Callable[[Random], T]) -> st.SearchStrategy[T]:
    """What a maker draws, as a strategy."""
    return st.randoms(use_true_random=False).map(maker)


def seldom(random: Random, one_in: int = 6) -> bool:
    """True now and then."""
    return random.randrange(one_in) == one_in - 1


def blob(random: Random, most: int = 12) -> bytes:
    """Some bytes."""
    return bytes(random.randrange(256) for _ in range(random.randrange(most + 1)))


def number(random: Random, bits: int) -> int:
    """A number of at most so many bits: mostly a small one."""
    return random.randrange(1 << random.choice((1, 3, 8, 21, bits)))


def signed(random: Random, bits: int) -> int:
    """The same, negative ones too."""
    value = number(random, bits - 1)
    return ~value if seldom(random) else value


# --- unknown fields ---


def field_of(random: Random, depth: int = 2) -> bytes:
    """Any field of any number."""
    at, wire = random.choice(NUMBERS), random.choice((0, 1, 2, 3, 5))
    tag = size_bytes(at << 3 | wire)
    if wire == 0:
        return tag + size_bytes(number(random, 64))
    if wire == 2:
        data = blob(random)
        return tag + size_bytes(len(data)) + data
    if wire == 3:
        inner = b"".join(field_of(random, depth - 1) for _ in range(random.randrange(depth + 1)))
        return tag + inner + size_bytes(at << 3 | 4)
    return tag + bytes(random.randrange(256) for _ in range(8 if wire == 1 else 4))


def strange(random: Random, kind: type[Message]) -> bytes:
    """Fields that a message of this kind does not know, often of numbers that it or others do."""
    found = [field_of(random) for _ in range(random.randrange(1, 3))]
    return b"".join(one for one in found if _is_unknown(kind, one))


def _is_unknown(kind: type[Message], one: bytes) -> bool:
    try:
        return unknown(kind.FromString(one)) == one
    except DecodeError:
        return False


def with_strange(random: Random, message: M, one_in: int = 8) -> M:
    """A message, now and then with unknown fields."""
    if seldom(random, one_in):
        message.MergeFromString(strange(random, type(message)))
    return message


# --- messages ---


def feature(random: Random) -> Feature:
    """A feature of any kind, or an unset one."""
    out = Feature()
    kind = random.choice((*KINDS, "unset"))
    if kind.endswith("_value"):
        setattr(out, kind, _value(random, kind))
    elif kind.endswith("_lists"):
        lists = getattr(out, kind)
        lists.SetInParent()
        for _ in range(random.randrange(3)):
            lists.list.add(value=_values(random, kind))
            with_strange(random, lists.list[-1])
        with_strange(random, lists)
    elif kind.endswith("_list"):
        each = getattr(out, kind)
        each.SetInParent()
        each.value.extend(_values(random, kind))
        with_strange(random, each)
    return with_strange(random, out)


def _values(random: Random, kind: str) -> list[Any]:
    return [_value(random, kind) for _ in range(random.randrange(4))]


def _value(random: Random, kind: str) -> Any:
    if kind.startswith("fid"):
        return number(random, 64)
    if kind.startswith("int64"):
        return signed(random, 64)
    return blob(random) if kind.startswith("bytes") else random.choice(FLOATS)


def line_id(random: Random) -> LineId:
    """A LineId with some of its fields and unknown ones."""
    line = LineId()
    for name, maker in _LINE.items():
        if seldom(random, 3):
            setattr(line, name, maker(random))
    for name in ("actions", "pre_actions", "special_strategies"):
        if seldom(random, 3):
            getattr(line, name).extend(signed(random, 32) for _ in range(random.randrange(3)))
    if seldom(random):
        line.MergeFromString(b"\x2a\x03\xff\xfe\x41")  # req_id, no UTF-8
    return with_strange(random, line, 3)


_LINE: Final[dict[str, Callable[[Random], Any]]] = {
    "uid": lambda random: number(random, 64),
    "req_time": lambda random: signed(random, 64),
    "req_id": lambda random: random.choice(NAMES),
    "emit_type": lambda random: signed(random, 32),
    "sample_rate": lambda random: random.choice(FLOATS),
    "is_draw": lambda random: seldom(random, 2),
    "data_source_name": lambda random: random.choice(NAMES),
}


def _small(random: Random) -> int:
    return random.choice((0, 0, 0, 1, 300, -1, (1 << 31) - 1, -(1 << 31)))


def named_feature(random: Random) -> NamedFeature:
    """A named feature that says nothing of the row itself."""
    out = NamedFeature(name=random.choice(NAMES), id=_small(random), sorted_id=_small(random))
    if not seldom(random):
        out.feature.CopyFrom(feature(random))
    return with_strange(random, out)


def raw_feature(random: Random) -> RawFeature:
    """A raw feature."""
    return with_strange(
        random, RawFeature(feature=[feature(random) for _ in range(random.randrange(3))])
    )


def example(random: Random) -> Example:
    """An Example with anything in it; what features say of the row may be wrong, or said twice."""
    out = plain_example(random)
    for name in (LINE_ID, LABEL, INSTANCE_WEIGHT):
        if seldom(random, 5):
            said = NamedFeature(name=name, feature=special(random, name, out))
            out.named_feature.insert(random.randrange(len(out.named_feature) + 1), said)
    return out


def plain_example(random: Random) -> Example:
    """An Example that says what is said of the row in fields."""
    out = Example()
    out.named_feature.extend(named_feature(random) for _ in range(random.randrange(5)))
    if seldom(random, 3):
        each = out.named_raw_feature.add(name=random.choice(NAMES), id=_small(random))
        if not seldom(random):
            each.raw_feature.CopyFrom(raw_feature(random))
        with_strange(random, each)
    if seldom(random, 2):
        out.line_id.CopyFrom(line_id(random))
    if seldom(random, 2):
        out.label.extend(random.choice(FLOATS) for _ in range(random.randrange(3)))
    out.instance_weight = random.choice((0.0, 0.0, -0.0, 1.0, 0.5))
    out.data_source_key = random.choice((0, 0, 0, 256, 7, (1 << 32) - 1))
    return with_strange(random, out)


def special(random: Random, name: str, row: Example | None = None) -> Feature:
    """What a special feature can be: right mostly; sometimes as the row's own field has it."""
    if seldom(random):
        return feature(random)
    out = Feature()
    if name == LINE_ID:
        has = row is not None and row.HasField("line_id")
        line = row.line_id if row is not None and has else line_id(random)
        odd = seldom(random)
        out.bytes_list.value.append(encoded(random, line) if odd else line.SerializeToString())
    elif name == LABEL:
        own = row.label if row is not None else ()
        out.float_list.value.extend(own or [1.0] * random.randrange(3))
    else:
        own = [row.instance_weight] if row is not None and row.instance_weight else []
        out.float_list.value.extend(
            own or [random.choice(FLOATS) for _ in range(random.randrange(2))]
        )
    return with_strange(random, out, 20)


def batch(random: Random) -> ExampleBatch:
    """An ExampleBatch with anything in it, mostly whole."""
    out = ExampleBatch(batch_size=random.randrange(5))
    out.data_source_key = random.choice((0, 0, 0, 256, 7))
    names = [random.choice(NAMES) for _ in range(random.randrange(5))]
    names += [name for name in (LINE_ID, LABEL, INSTANCE_WEIGHT) if seldom(random, 3)]
    names += random.choices((LINE_ID, LABEL), k=seldom(random, 15))
    random.shuffle(names)
    for name in names:
        _fill(random, out.named_feature_list.add(name=name, id=_small(random)), out.batch_size)
    if seldom(random, 3):
        each = out.named_raw_feature_list.add(name=random.choice(NAMES), id=_small(random))
        count = out.batch_size if not seldom(random, 9) else random.randrange(4)
        each.raw_feature.extend(raw_feature(random) for _ in range(count))
        with_strange(random, each)
    return with_strange(random, out)


def _fill(random: Random, out: NamedFeatureList, size: int) -> None:
    """The features of a list: sometimes shared, seldom too few of them."""
    count = size if not seldom(random, 20) else random.randrange(4)
    if seldom(random, 4):
        out.type, count = SHARED, random.choice((1, 1, 1, 2, 0))
    one = special(random, out.name) if out.name in (LINE_ID, LABEL, INSTANCE_WEIGHT) else None
    for _ in range(count):
        if one is not None:
            out.feature.append(one if seldom(random, 3) else special(random, out.name))
        else:
            out.feature.append(feature(random))
    if seldom(random):
        out.MergeFromString(b"\x30" + size_bytes(number(random, 64)))  # sorted_id of its features
    with_strange(random, out)


def instance(random: Random) -> Instance:
    """An Instance with anything in it."""
    out = Instance()
    out.fid.extend(number(random, 64) for _ in range(random.randrange(5)))
    out.label.extend(random.choice(FLOATS) for _ in range(random.randrange(3)))
    out.value.extend(random.choice(FLOATS) for _ in range(random.randrange(3)))
    if seldom(random, 2):
        out.line_id.CopyFrom(line_id(random))
    if seldom(random, 2):
        out.instance_weight = random.choice(FLOATS)
    if seldom(random, 3):
        out.data_source_key = number(random, 32)
    for _ in range(random.randrange(3)):
        _fill_instance(random, out.feature.add(name=random.choice(NAMES)))
    return with_strange(random, out)


def _fill_instance(random: Random, out: Any) -> None:
    kind = random.choice(("fid", "float_value", "int64_value", "bytes_value", "none"))
    if kind == "none":
        return
    if seldom(random, 3):
        for _ in range(random.randrange(3)):
            lists = getattr(out, kind.removesuffix("_value") + "_list")
            lists.add(value=_values(random, kind))
    else:
        getattr(out, kind).extend(_values(random, kind))


# --- the same message in other bytes ---


def encoded(random: Random, message: Message) -> bytes:
    """A message in unusual but valid bytes.

    Fields in any order, singular messages in several parts, numbers packed or not, tags, sizes and
    numbers longer than need be, numbers and texts that a later one replaces.
    """
    return b"".join(_pieces(random, message))


def _pieces(random: Random, message: Message) -> list[bytes]:
    kept = [[one.whole for one in fields(unknown(message))]]
    for known, value in message.ListFields():
        kept.append(_pieces_of(random, known, value))
    return _mixed(random, [each for each in kept if each])


def _mixed(random: Random, kept: list[list[bytes]]) -> list[bytes]:
    """Lists merged into one: the order within each of them stays."""
    out: list[bytes] = []
    while kept:
        each = random.choice(kept) if seldom(random, 2) else kept[0]
        out.append(each.pop(0))
        kept = [one for one in kept if one]
    return out


def _pieces_of(random: Random, known: FieldDescriptor, value: Any) -> list[bytes]:
    if known.type == FieldDescriptor.TYPE_MESSAGE:
        if known.is_repeated:
            return [_sized(random, known.number, encoded(random, one)) for one in value]
        return _parts(random, known.number, _pieces(random, value))
    if known.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return _texts(random, known, value)
    return _numbers(random, known, value)


def _parts(random: Random, number_: int, pieces: list[bytes]) -> list[bytes]:
    """A message in one, two or three parts, which readers put together."""
    cuts = sorted(random.randrange(len(pieces) + 1) for _ in range(max(0, random.randrange(8) - 5)))
    ends = zip([0, *cuts], [*cuts, len(pieces)], strict=True)
    return [_sized(random, number_, b"".join(pieces[begin:end])) for begin, end in ends]


def _texts(random: Random, known: FieldDescriptor, value: Any) -> list[bytes]:
    if known.is_repeated:
        return [_sized(random, known.number, one) for one in value]
    data = _own_bytes(known, value)
    before = [_sized(random, known.number, b"before")] if seldom(random, 9) else []
    return [*before, _sized(random, known.number, data)]


def _own_bytes(known: FieldDescriptor, value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _numbers(random: Random, known: FieldDescriptor, value: Any) -> list[bytes]:
    wire = _NUMERIC.get(known.type, 0)
    if not known.is_repeated:
        before = [_number(random, known, 1)] if seldom(random, 9) else []
        return [*before, _number(random, known, value)]
    out, left = [], list(value)
    while left:
        count = random.randrange(1, len(left) + 1)
        part, left = left[:count], left[count:]
        if count == 1 and seldom(random, 3):
            out.append(_tag(random, known.number, wire) + _digits(random, known, part[0]))
        else:
            data = b"".join(_digits(random, known, one) for one in part)
            out.append(_sized(random, known.number, data))
    return out


def _number(random: Random, known: FieldDescriptor, value: Any) -> bytes:
    wire = _NUMERIC.get(known.type, 0)
    return _tag(random, known.number, wire) + _digits(random, known, value)


def _digits(random: Random, known: FieldDescriptor, value: Any) -> bytes:
    """A number as it stands in a message: protobuf's own bytes, those of varints made longer."""
    holder = known.containing_type._concrete_class()
    if known.is_repeated:
        getattr(holder, known.name).append(value)
        data = next(fields(holder.SerializeToString())).value
    else:
        setattr(holder, known.name, value)
        data = next((one.value for one in fields(holder.SerializeToString())), b"\0")
    return longer(random, data, 10) if known.type not in _NUMERIC else data


def _sized(random: Random, number_: int, data: bytes) -> bytes:
    return _tag(random, number_, 2) + longer(random, size_bytes(len(data)), 5) + data


def _tag(random: Random, number_: int, wire: int) -> bytes:
    return longer(random, size_bytes(number_ << 3 | wire), 5)


def longer(random: Random, data: bytes, most: int) -> bytes:
    """A varint, now and then with more bytes than it needs."""
    if len(data) >= most or not seldom(random, 12):
        return data
    more = random.randrange(1, most - len(data) + 1)
    return data[:-1] + bytes([data[-1] | 128]) + b"\x80" * (more - 1) + b"\0"


# --- damage ---


def damaged(random: Random, data: bytes, times: int = 3) -> bytes:
    """Bytes with bits flipped, cut, doubled, put in, spliced, and numbers that lie."""
    out = bytearray(data)
    for _ in range(random.randrange(1, times + 1)):
        if out:
            random.choice(_DAMAGE)(random, out)
    return bytes(out)


def _flip(random: Random, out: bytearray) -> None:
    out[random.randrange(len(out))] ^= 1 << random.randrange(8)


def _cut(random: Random, out: bytearray) -> None:
    begin, size = _stretch(random, out)
    del out[begin : begin + size]


def _end(random: Random, out: bytearray) -> None:
    del out[random.randrange(len(out)) :]


def _double(random: Random, out: bytearray) -> None:
    begin, size = _stretch(random, out)
    out[begin:begin] = out[begin : begin + size]


def _splice(random: Random, out: bytearray) -> None:
    begin, size = _stretch(random, out)
    to = random.randrange(len(out))
    out[to : to + size] = out[begin : begin + size]


def _put_in(random: Random, out: bytearray) -> None:
    at = random.randrange(len(out) + 1)
    out[at:at] = field_of(random) if seldom(random, 2) else blob(random)


def _lie(random: Random, out: bytearray) -> None:
    """A byte, or eight, that say another size."""
    at = random.randrange(len(out))
    value = random.choice((0, 1, 0x7F, 0x80, 0xFF, 0xFEFEFEFE, 1 << 31, 1 << 63, (1 << 64) - 1))
    if seldom(random, 2):
        out[at : at + 8] = value.to_bytes(8, "little")[: len(out) - at]
    else:
        out[at] = value & 0xFF


def _stretch(random: Random, out: bytearray) -> tuple[int, int]:
    return random.randrange(len(out)), 1 + random.randrange(min(len(out), 40))


_DAMAGE: Final = (_flip, _flip, _cut, _end, _double, _splice, _put_in, _lie)
