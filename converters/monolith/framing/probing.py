"""How the beginning of a stream can be read: which framings and kinds fit it.

Strict on purpose: frames have to follow each other exactly, and messages to be what their kind says
with names in them. Random bytes, text and other formats are none.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ingot.converters.monolith.contract import MAX_RECORD, Kind
from ingot.converters.monolith.framing.framing import MAX_SORT_ID, Framing
from ingot.converters.monolith.recognizing import stream_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch
    from ingot.schemas.monolith.instance_pb2 import Instance

PARQUET: Final = b"PAR1"
"""What a Parquet file begins with."""
HEAD: Final = 256 << 10
"""Bytes of a stream that are enough to tell."""

FRAMINGS: Final = (
    Framing(),
    Framing(sort_id=False),
    Framing(sort_id=False, lagrangex_header=True),
    Framing(kafka_dump=True),
    Framing(sort_id=False, kafka_dump=True),
    Framing(kafka_dump_prefix=True),
    Framing(sort_id=False, kafka_dump_prefix=True),
    Framing(kafka_dump=True, kafka_dump_prefix=True),
    Framing(sort_id=False, kafka_dump=True, kafka_dump_prefix=True),
)
"""All there are; the usual ones first, as parts that are zero can be read in several ways."""

_KINDS: Final[tuple[Kind, ...]] = ("examplebatch", "example", "instance")
_MESSAGES: Final = 16
_BATCH_SIZE: Final = 3
_FEATURE: Final = 2
_TELLING: Final = 2


def likely(head: bytes, kind: Kind | None = None) -> list[tuple[Framing, Kind]]:
    """The framings and kinds in which the beginning of a stream is records, the usual ones first.

    Args:
        head: the first bytes, decompressed; `HEAD` of them are enough. Its last record may be cut.
        kind: what its records are; None: any.
    """
    found: list[tuple[Framing, Kind]] = []
    for framing in FRAMINGS:
        for one in (kind,) if kind else _KINDS:
            messages = _chain(head, framing, MAX_RECORD[one])
            if messages and all(_fits(message, whole, one) for message, whole in messages):
                found.append((framing, one))
    return found


def advice(head: bytes, framing: Framing, kind: Kind) -> str:
    """What would read the beginning of a stream better, as options; empty where nothing is known.

    Args:
        head: as `likely` takes it.
        framing: what did not read it well.
        kind: what its records were taken for.
    """
    found = likely(head, kind)
    if found:
        other = better_framing(head, framing, kind)
        return "" if other is None else f"it reads as --framing {other}"
    if head.startswith(PARQUET):
        return "it is a Parquet file: --from parquet"
    others = likely(head)
    if not others:
        packed = stream_of(head)
        return f"it reads as --compression {packed.compression}" if packed else ""
    same = [one for one in others if one[0] == framing]
    how, what = (same or others)[0]
    return f"it reads as {what} records" + ("" if same else f" with --framing {how}")


def better_framing(head: bytes, framing: Framing, kind: Kind) -> Framing | None:
    """The framing that bytes are in, where it is not the one they were taken for; else None."""
    found = [one for one, _ in likely(head, kind)]
    return found[0] if found and framing not in found else None


def kind_of(data: bytes) -> Kind | None:
    """What bytes are a whole message of, as far as they hold what that is made of; else None."""
    return next((kind for kind in _KINDS if data and _fits(data, True, kind)), None)


def other_kind(data: bytes, kind: Kind) -> Kind | None:
    """What a message is where it is not what it was taken for; None where nothing is known.

    Args:
        data: the message; of a large one more than `HEAD` bytes are enough.
        kind: what it was taken for.
    """
    head, whole = data[:HEAD], len(data) <= HEAD
    if not data or _fits(head, whole, kind):
        return None
    return next((one for one in _KINDS if one != kind and _fits(head, whole, one)), None)


def _chain(head: bytes, framing: Framing, limit: int) -> list[tuple[bytes, bool]] | None:
    """The first messages and whether each is whole; None where frames do not follow each other."""
    messages: list[tuple[bytes, bool]] = []
    at = 0
    while at < len(head) and len(messages) < _MESSAGES:
        place = _header(head, at, framing)
        if place is None:
            return None
        size = int.from_bytes(head[place : place + 8], "little")
        if place + 8 > len(head):
            break
        if not 0 < size <= limit:
            return None
        at = place + 8 + size
        if place + 8 < len(head):
            messages.append((head[place + 8 : at], at <= len(head)))
    return messages


def _header(head: bytes, at: int, framing: Framing) -> int | None:
    """Where the size of the message stands; None where the parts before it cannot be."""
    if framing.lagrangex_header:
        return None if any(head[at + 4 : at + 8]) else at + 8
    size = 0
    if framing.kafka_dump_prefix:
        size = int.from_bytes(head[at : at + 8], "little")
        at += 8 if size else 16
    if framing.sort_id:
        if not size:
            size = int.from_bytes(head[at : at + 8], "little")
            at += 8
        if size > MAX_SORT_ID or kind_of(head[at : at + size]):
            return None
        at += size
    return at + 8 * framing.kafka_dump


def _fits(data: bytes, whole: bool, kind: Kind) -> bool:
    """Whether bytes are a message of a kind; of a cut one, whether its whole fields are one."""
    from ingot.converters.monolith.messages import DecodeError, example_pb2, instance_pb2

    if not whole:
        data = data[: max((stop for _, _, stop in _fields(data)), default=0)]
    try:
        if kind == "examplebatch":
            return _is_batch(example_pb2.ExampleBatch.FromString(data), whole)
        if kind == "example":
            return _is_example(example_pb2.Example.FromString(data), data)
        return _is_instance(instance_pb2.Instance.FromString(data))
    except DecodeError:
        return False


def _is_batch(batch: "ExampleBatch", whole: bool) -> bool:
    names = [one.name for one in batch.named_feature_list]
    names += [one.name for one in batch.named_raw_feature_list]
    return bool(names) and all(names) and (batch.batch_size > 0 or not whole)


def _is_example(example: "Example", data: bytes) -> bool:
    """Not a batch either: that has a batch_size, and lists with any number of features."""
    names = [one.name for one in example.named_feature]
    names += [one.name for one in example.named_raw_feature]
    if not all(names) or _BATCH_SIZE in _unknown(example):
        return False
    if not names:
        return bool(example.line_id.ListFields())
    return all(_single(data[start:stop]) for number, start, stop in _fields(data) if number == 1)


def _single(feature: bytes) -> bool:
    return sum(number == _FEATURE for number, _, _ in _fields(feature)) <= 1


def _is_instance(instance: "Instance") -> bool:
    """Of what tells an Instance it has two at least: nine bytes are easily one with a fid."""
    names = [one.name for one in instance.feature]
    telling = (instance.fid, instance.label, names, instance.line_id.ListFields())
    return sum(map(bool, telling)) >= _TELLING and all(names) and not _unknown(instance)


def _unknown(message: "Message") -> set[int]:
    from google.protobuf.unknown_fields import UnknownFieldSet

    unknown = UnknownFieldSet(message)
    return {unknown[at].field_number for at in range(len(unknown))}


def _fields(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The whole fields at the top of a message: number, where the content begins, where it ends."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, form = tag >> 3, tag & 7
        start = at
        if form == 0:
            _, at = _varint(data, at)
        elif form == 2:
            size, start = _varint(data, at)
            at = start + size
        elif form in (1, 5):
            at += 8 if form == 1 else 4
        else:
            return
        if at > len(data) or not number:
            return
        yield number, start, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends; beyond the data's end where it is cut or too long."""
    value = 0
    for place in range(10):
        if at + place >= len(data):
            break
        value |= (data[at + place] & 127) << 7 * place
        if data[at + place] < 128:
            return value, at + place + 1
    return value, len(data) + 1
