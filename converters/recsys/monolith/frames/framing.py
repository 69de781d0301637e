"""How the records of a stream are framed: the parts before each message, as Monolith names them.

A stream has no header of its own and no checksums; every number is an unsigned 64-bit integer,
little-endian. Before each message stand, in this order:

    lagrangex_header    one number: its low byte is a type, bits 8..31 the data_source_key
    kafka_dump_prefix   a number; where it is 0 another one, else it is the sort_id's size
    sort_id             the sort_id's size (unless the prefix gave it), and the sort_id
    kafka_dump          one number, which nobody reads
    always              the message's size, and the message
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Final

from ingot.converters.errors import ConversionError
from ingot.converters.settings import Setting
from ingot.converters.sources.recognizers.monolith import (
    MAX_RECORD,
    Kind,
    NotAMessageError,
    read_fields,
    recognize_monolith,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch
    from ingot.schemas.monolith.instance_pb2 import Instance

MAX_SORT_ID: Final = 64 << 10
"""Bytes of a sort_id that are read; what is larger is no sort_id but another framing."""


@dataclass(frozen=True)
class Framing:
    """The parts that each frame has; Monolith's own default is the sort_id alone.

    Attributes:
        sort_id: a size and so many bytes.
        kafka_dump: a number before the size.
        kafka_dump_prefix: one or two numbers at the beginning.
        lagrangex_header: a number that holds the data_source_key; excludes the others.

    Raises:
        ConversionError: lagrangex_header together with another part.
    """

    sort_id: bool = True
    kafka_dump: bool = False
    kafka_dump_prefix: bool = False
    lagrangex_header: bool = False

    def __post_init__(self) -> None:
        if self.lagrangex_header and (self.sort_id or self.kafka_dump or self.kafka_dump_prefix):
            hint = "use lagrangex_header alone: its frames have no other parts"
            raise ConversionError("framing", f"{self} is not possible", hint)

    @classmethod
    def parse(cls, text: "str | Framing") -> "Framing":
        """A framing, or the one of a text as `str` gives it: parts with commas between, or `none`.

        Raises:
            ConversionError: an unknown part, or parts that exclude each other.
        """
        if isinstance(text, Framing):
            return text
        parts = {part.strip() for part in text.split(",")}
        known = {field.name for field in fields(cls)}
        if parts != {"none"} and not parts <= known:
            hint = f"write parts of {', '.join(sorted(known))} with commas between, or none"
            raise ConversionError("framing", f"{text!r} is not a framing", hint)
        return cls(**{name: name in parts for name in known})

    def __str__(self) -> str:
        names = [field.name for field in fields(self) if getattr(self, field.name)]
        return ",".join(names) or "none"

    @property
    def bits(self) -> int:
        """The parts as kernels take them: 1, 2, 4 and 8 in the order of the attributes."""
        return sum(getattr(self, field.name) << place for place, field in enumerate(fields(self)))

    @property
    def head_bytes(self) -> int:
        """Bytes before a message, without a sort_id."""
        before = self.lagrangex_header + 2 * self.kafka_dump_prefix + self.kafka_dump
        return 8 * (before + self.sort_id + 1)


COMPRESSIONS: Final = ("none", "snappy", "zstd", "gzip", "zlib")
"""What streams may be compressed with, as options name it."""


@dataclass(frozen=True, kw_only=True)
class StreamHints:
    """What the user knows of streams; None: detected from their content."""

    kind: Annotated[
        str | None,
        Setting(
            "Kind of the input.",
            flag="from",
            choices=("example", "examplebatch", "instance", "parquet"),
            default="detected from the content",
        ),
    ] = None
    framing: Annotated[
        Framing | None,
        Setting(
            "Parts before each message: sort_id, kafka_dump, kafka_dump_prefix with commas "
            "between; lagrangex_header; none.",
            metavar="PARTS",
            default="detected from the content",
            parse=Framing.parse,
        ),
    ] = None
    compression: Annotated[
        str | None,
        Setting(
            "Compression of the files.",
            choices=COMPRESSIONS,
            default="detected from name and content",
        ),
    ] = None


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
_MIN_INSTANCE_FIELDS: Final = 2


def likely_framings(head: bytes, kind: Kind | None = None) -> list[tuple[Framing, Kind]]:
    """Return the framings and kinds as which a stream's beginning reads, the usual ones first."""
    found: list[tuple[Framing, Kind]] = []
    for framing in FRAMINGS:
        for one in (kind,) if kind else _KINDS:
            messages = _first_messages(head, framing, MAX_RECORD[one])
            if messages and all(_is_message(message, whole, one) for message, whole in messages):
                found.append((framing, one))
    return found


def reading_advice(head: bytes, framing: Framing, kind: Kind) -> str:
    """Return the settings that would read a stream's beginning; empty where none is known."""
    found = likely_framings(head, kind)
    if found:
        other = find_better_framing(head, framing, kind)
        return "" if other is None else f"it reads with framing {other}"
    if head.startswith(PARQUET):
        return "it is a Parquet file: set `source` to parquet"
    others = likely_framings(head)
    if not others:
        packed = recognize_monolith(head)
        return f"it reads with compression {packed.compression}" if packed else ""
    same = [one for one in others if one[0] == framing]
    how, what = (same or others)[0]
    return f"it reads as {what} records" + ("" if same else f" with framing {how}")


def find_better_framing(head: bytes, framing: Framing, kind: Kind) -> Framing | None:
    """The framing that bytes are in, where it is not the one they were taken for; else None."""
    found = [one for one, _ in likely_framings(head, kind)]
    return found[0] if found and framing not in found else None


def message_kind(data: bytes) -> Kind | None:
    """What bytes are a whole message of, as far as they hold what that is made of; else None."""
    return next((kind for kind in _KINDS if data and _is_message(data, True, kind)), None)


def detect_other_kind(data: bytes, kind: Kind) -> Kind | None:
    """What a message is where it is not what it was taken for; None where nothing is known."""
    head, whole = data[:HEAD], len(data) <= HEAD
    if not data or _is_message(head, whole, kind):
        return None
    return next((one for one in _KINDS if one != kind and _is_message(head, whole, one)), None)


def _first_messages(head: bytes, framing: Framing, limit: int) -> list[tuple[bytes, bool]] | None:
    """The first messages and whether each is whole; None where frames do not follow each other."""
    messages: list[tuple[bytes, bool]] = []
    at = 0
    while at < len(head) and len(messages) < _MESSAGES:
        place = _size_offset(head, at, framing)
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


def _size_offset(head: bytes, at: int, framing: Framing) -> int | None:
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
        if size > MAX_SORT_ID or message_kind(head[at : at + size]):
            return None
        at += size
    return at + 8 * framing.kafka_dump


def _is_message(data: bytes, whole: bool, kind: Kind) -> bool:
    """Whether bytes are a message of a kind; of a cut one, whether its whole fields are one."""
    from ingot.converters.recsys.monolith.contract import DecodeError, example_pb2, instance_pb2

    if not whole:
        data = data[: max((stop for _, _, stop in _scan_fields(data)), default=0)]
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
    if not all(names) or _BATCH_SIZE in _unknown_numbers(example):
        return False
    if not names:
        return bool(example.line_id.ListFields())
    return all(
        _has_one_feature(data[start:stop])
        for number, start, stop in _scan_fields(data)
        if number == 1
    )


def _has_one_feature(feature: bytes) -> bool:
    return sum(number == _FEATURE for number, _, _ in _scan_fields(feature)) <= 1


def _is_instance(instance: "Instance") -> bool:
    """Of what tells an Instance it has two at least: nine bytes are easily one with a fid."""
    names = [one.name for one in instance.feature]
    telling = (instance.fid, instance.label, names, instance.line_id.ListFields())
    return (
        sum(map(bool, telling)) >= _MIN_INSTANCE_FIELDS
        and all(names)
        and not _unknown_numbers(instance)
    )


def _unknown_numbers(message: "Message") -> set[int]:
    from google.protobuf.unknown_fields import UnknownFieldSet

    unknown = UnknownFieldSet(message)
    return {unknown[at].field_number for at in range(len(unknown))}


def _scan_fields(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The whole fields at the top of a message: number, where the content begins, where it ends."""
    with suppress(NotAMessageError):
        for number, _, start, stop in read_fields(data, 0, len(data)):
            yield number, start, stop
