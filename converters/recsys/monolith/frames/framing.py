"""How the records of a stream are framed: the parts before each message, as Monolith names them.

A stream has no header of its own and no checksums; every number is an unsigned 64-bit integer,
little-endian. Before each message stand, in this order:

    lagrangex_header    one number: its low byte is a type, bits 8..31 the data_source_key
    kafka_dump_prefix   a number; where it is 0 another one, else it is the sort_id's size
    sort_id             the sort_id's size (unless the prefix gave it), and the sort_id
    kafka_dump          one number, which nobody reads
    always              the message's size, and the message
"""

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Annotated, Final

from ingot.converters.errors import ConversionError
from ingot.converters.settings import Setting
from ingot.converters.sources.recognizers import monolith as recognition
from ingot.converters.sources.recognizers.monolith import Kind

MAX_SORT_ID: Final = 64 << 10
"""Bytes of a sort_id that are read; what is larger is no sort_id but another framing."""


@dataclass(frozen=True)
class Framing:
    """The parts that each frame has; Monolith's own default is the sort_id alone.

    Raises:
        ConversionError: lagrangex_header together with another part.
    """

    sort_id: bool = True  # a size and so many bytes
    kafka_dump: bool = False  # a number before the size
    kafka_dump_prefix: bool = False  # one or two numbers at the beginning
    lagrangex_header: bool = False  # a number that holds the data_source_key; excludes the others

    def __post_init__(self) -> None:
        if self.lagrangex_header and (self.sort_id or self.kafka_dump or self.kafka_dump_prefix):
            hint = "use lagrangex_header alone: its frames have no other parts"
            raise ConversionError("framing", f"{self} is not possible", hint)

    @classmethod
    def parse(cls, text: "str | Framing") -> "Framing":
        """Parse a framing as `str` writes it: parts separated by commas, or `none`.

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
        """Return the parts as kernels take them: 1, 2, 4 and 8 in the order of the attributes."""
        return sum(getattr(self, field.name) << number for number, field in enumerate(fields(self)))

    @property
    def head_bytes(self) -> int:
        """Return the number of bytes before a message, without a sort_id."""
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


PARQUET: Final = b"PAR1"  # what a Parquet file begins with
HEAD: Final = 256 << 10  # bytes of a stream that are enough to tell

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

_MESSAGES: Final = 16  # of a stream's beginning


def likely_framings(head: bytes, kind: Kind | None = None) -> list[tuple[Framing, Kind]]:
    """Return the framings and kinds as which a stream's beginning reads, the usual ones first."""
    kinds = ((one, recognition.messages_kind(head, str(one), _MESSAGES)) for one in FRAMINGS)
    return [
        (one, recognized) for one, recognized in kinds if recognized and kind in (None, recognized)
    ]


def reading_advice(head: bytes, framing: Framing, kind: Kind) -> str:
    """Return the settings that would read a stream's beginning; empty where none is known."""
    framings = likely_framings(head, kind)
    if framings:
        other = find_better_framing(head, framing, kind)
        return "" if other is None else f"it reads with framing {other}"
    if head.startswith(PARQUET):
        return "it is a Parquet file: set `source` to parquet"
    alternatives = likely_framings(head)
    if not alternatives:
        packed = recognition.recognize_monolith(head)
        return f"it reads with compression {packed.compression}" if packed else ""
    same = [one for one in alternatives if one[0] == framing]
    likely_framing, likely_kind = (same or alternatives)[0]
    return f"it reads as {likely_kind} records" + (
        "" if same else f" with framing {likely_framing}"
    )


def find_better_framing(head: bytes, framing: Framing, kind: Kind) -> Framing | None:
    """Return the framing that fits the bytes better than the given one, None if there is none."""
    framings = [one for one, _ in likely_framings(head, kind)]
    return framings[0] if framings and framing not in framings else None


def message_kind(data: bytes) -> Kind | None:
    """Return the kind of message that the bytes are as a whole, None if they are not one."""
    from ingot.converters.recsys.monolith.contract import DecodeError, example_pb2

    recognized = recognition.message_kind(data, 0, len(data)) if data else None
    if recognized == "instance":
        return recognized
    kind = example_pb2.ExampleBatch if recognized == "examplebatch" else example_pb2.Example
    with suppress(DecodeError):
        fields = {field.name: value for field, value in kind.FromString(data).ListFields()}
        names = [one.name for key in fields if key.startswith("named_") for one in fields[key]]
        has_line_id = "line_id" in fields and fields["line_id"].ListFields()
        if all(names) and (recognized or has_line_id):
            return recognized or "example"
    return None
