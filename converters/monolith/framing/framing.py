"""How the records of a stream are framed: the parts before each message, as Monolith names them.

A stream has no header of its own and no checksums; every number is an unsigned 64-bit integer,
little-endian. Before each message stand, in this order:

    lagrangex_header    one number: its low byte is a type, bits 8..31 the data_source_key
    kafka_dump_prefix   a number; where it is 0 another one, else it is the sort_id's size
    sort_id             the sort_id's size (unless the prefix gave it), and the sort_id
    kafka_dump          one number, which nobody reads
    always              the message's size, and the message
"""

from dataclasses import dataclass, fields
from typing import Final

from ingot.converters.errors import ConversionError

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
            hint = "say lagrangex_header alone: its frames have no other parts"
            raise ConversionError("framing", f"{self} cannot be", hint)

    @classmethod
    def parse(cls, text: str) -> "Framing":
        """The framing of a text as `str` gives it: parts with commas between, or `none`.

        Raises:
            ConversionError: an unknown part, or parts that exclude each other.
        """
        parts = {part.strip() for part in text.split(",")}
        known = {field.name for field in fields(cls)}
        if parts != {"none"} and not parts <= known:
            hint = f"parts are {', '.join(sorted(known))}, with commas between, or none"
            raise ConversionError("framing", f"{text!r} is none", hint)
        return cls(**{name: name in parts for name in known})

    def __str__(self) -> str:
        names = [field.name for field in fields(self) if getattr(self, field.name)]
        return ",".join(names) or "none"

    @property
    def bits(self) -> int:
        """The parts as kernels take them: 1, 2, 4 and 8 in the order of the attributes."""
        return sum(getattr(self, field.name) << place for place, field in enumerate(fields(self)))
