"""Server-sent events as chat servers send them: bytes in pieces, events out.

Looser than the standard, as some servers are: what ends without a blank line is an event too, and
a field `error` is the data of an event of that name. The parsers of openai and httpx2 leave out the
one and the other, and trip over a byte order mark or a byte that is no UTF-8.
"""

import re
from codecs import BOM_UTF8
from dataclasses import dataclass

_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event: its name (empty = it has none) and its data, the lines joined by line feeds."""

    name: str
    data: str


class Events:
    """Takes the bytes of a stream as they come, however they are cut."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._first = True
        self._after_return = False
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[Event]:
        """The events that end in this piece; empty events are none."""
        if not piece:
            return []
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]  # the second half of a line's end that came in two pieces
        self._after_return = piece.endswith(b"\r")
        *ended, rest = _END.split(piece)
        found = [self._ended(line) for line in ended]
        self._line += rest
        return [one for one in found if one is not None]

    def end(self) -> list[Event]:
        """The event that the end of the stream leaves without its blank line."""
        found = [self._ended(b""), self._ended(b"")]
        return [one for one in found if one is not None]

    def _ended(self, rest: bytes) -> Event | None:
        """The event that this line ends, None = it ends none."""
        line = bytes(self._line + rest)
        self._line.clear()
        if self._first:
            self._first, line = False, line.removeprefix(BOM_UTF8)
        if line:
            self._field(line.decode("utf-8", "replace"))
            return None
        name, data, self._name, self._data = self._name, self._data, "", []
        return Event(name=name, data="\n".join(data)) if data else None

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name in ("data", "error"):
            self._name = name if name == "error" else self._name
            self._data.append(value)
