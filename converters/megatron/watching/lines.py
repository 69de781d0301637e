"""The log of a build: one JSON object a line, of bounded length, whatever the values are.

What comes from data (names of files, error texts) is hostile: no control character leaves
unescaped, no lone surrogate breaks a line. A stream that is closed or full loses lines and stops
nothing.
"""

import sys
import threading
from datetime import UTC, datetime
from typing import IO, Final

import orjson

from ingot.converters.megatron.monitor import LEVELS, Level
from ingot.converters.rows import Json

MAX_LINE: Final = 16_384
_LARGEST: Final = 2**63 - 1
# Characters of a text and members of a list or object: as a rule, and where the line is too long.
_ROOMY: Final = (2_000, 64)
_TIGHT: Final = (100, 8)
_DEPTH: Final = 4
_CUT: Final = "…"  # how many more there were follows
_HEAD: Final = ("level", "component", "event")


def log_line(message: dict[str, Json], moment: datetime) -> bytes:
    """The line of a `log` message, with its line break: valid JSON, at most `MAX_LINE` bytes.

    Args:
        message: of kind `log`; its other fields follow `ts`, `level`, `component` and `event`.
        moment: goes into `ts`, in UTC.
    """
    named = {name: message.get(name, "") for name in _HEAD}
    rest = {n: v for n, v in message.items() if n not in named and n not in ("kind", "ts")}
    ts = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for text, members in (_ROOMY, _TIGHT):
        fields = _tidy({**named, **rest}, text, members + len(named), _DEPTH)
        line = _escaped(orjson.dumps({"ts": ts, **fields}))
        if len(line) <= MAX_LINE:
            return line
    head = _tidy(named, _TIGHT[0], len(named), 1)
    return _escaped(orjson.dumps({"ts": ts, **head, "fields_left_out": len(rest)}))


class LogStream:
    """Where the lines of a build go; takes messages from any thread and never raises.

    Args:
        stream: a binary stream, None = standard output. It is not closed here.
        level: lines below it are not written.
    """

    def __init__(self, stream: IO[bytes] | None, level: Level) -> None:
        self.lost = 0
        self._stream: IO[bytes] | None = _unbuffered(stream)
        self._lowest = LEVELS.index(level)
        self._torn = False
        self._lock = threading.Lock()

    def heard(self, message: dict[str, Json]) -> bool:
        """Whether the level of a message is high enough; an unknown level is."""
        level = message.get("level")
        return level not in LEVELS or LEVELS.index(level) >= self._lowest

    def write(self, message: dict[str, Json]) -> None:
        """Write the line of a `log` message, whatever its level."""
        line = log_line(message, datetime.now(UTC))
        with self._lock:
            self._put(line)

    def _put(self, line: bytes) -> None:
        """Write a line, or count it as lost; a torn one is ended before the next."""
        if self._stream is None:
            self.lost += 1
            return
        try:
            self._torn = not _written(self._stream, b"\n" + line if self._torn else line)
        except (BrokenPipeError, ValueError):
            self._stream = None  # nobody reads it any more, or it is closed
            self._torn = True
        except OSError:
            self._torn = True
        self.lost += self._torn


def _unbuffered(stream: IO[bytes] | None) -> IO[bytes] | None:
    """The stream below the buffers: what a failed write leaves in a buffer fails again at exit."""
    buffered = getattr(sys.stdout, "buffer", None) if stream is None else stream
    if buffered is None:
        return None
    try:
        (sys.stdout if stream is None else buffered).flush()
    except (OSError, ValueError):
        return None
    raw: IO[bytes] = getattr(buffered, "raw", buffered)
    return raw


def _written(stream: IO[bytes], line: bytes) -> bool:
    """Whether the whole line went out; a stream may take a part of it."""
    left = memoryview(line)
    while left:
        taken = stream.write(left)
        if not taken:
            return False
        left = left[taken:]
    stream.flush()
    return True


def _tidy(value: Json, text: int, members: int, depth: int) -> Json:
    """The value as orjson takes it: texts valid and cut, few members, no depth."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if -_LARGEST <= value <= _LARGEST else _text(hex(value), text)
    if depth and isinstance(value, dict):
        some = list(value.items())[:members]
        kept = {_text(str(k), _TIGHT[0]): _tidy(v, text, members, depth - 1) for k, v in some}
        return kept if len(value) <= members else {**kept, _CUT: len(value) - members}
    if depth and isinstance(value, list | tuple):
        several = [_tidy(one, text, members, depth - 1) for one in value[:members]]
        return several if len(value) <= members else [*several, f"{_CUT} {len(value) - members}"]
    return _text(value if isinstance(value, str) else f"({type(value).__name__})", text)


def _text(text: str, limit: int) -> str:
    """The text without lone surrogates, cut with a mark."""
    cut = text if len(text) <= limit else text[: limit - 1] + _CUT
    return cut.encode("utf-8", "backslashreplace").decode()


def _escaped(line: bytes) -> bytes:
    """The line with its break; what no terminal should be sent is escaped as JSON does."""
    shown = line.decode()
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else _escape(c) for c in shown)
    return shown.encode() + b"\n"


def _escape(character: str) -> str:
    """The character as JSON escapes it, one or two UTF-16 units."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
