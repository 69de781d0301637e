"""Places in words: a JSON Pointer as a line of the file and as a target, a path as text."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


@dataclass(kw_only=True, slots=True)
class _Open:
    """A list or an object whose end was not read yet; `key` is the member that is being read."""

    pointer: str
    is_list: bool
    key: str | None = None
    number: int = 0

    def inside(self) -> str:
        """The pointer of the value that is being read."""
        step = str(self.number) if self.key is None else self.key
        return f"{self.pointer}/{step.replace('~', '~0').replace('/', '~1')}"

    def names_next(self) -> bool:
        """Whether the next text is the key of a member."""
        return not self.is_list and self.key is None


def lines_of(text: str) -> dict[str, int]:
    """Line, from 1, of every value of a JSON text, by JSON Pointer; of a member that of its key.

    Of a text that is no JSON what is found says nothing.
    """
    found: dict[str, int] = {}
    around: list[_Open] = []
    for token, line in _tokens(text):
        inner = around[-1] if around else None
        if token in "]}":
            del around[-1:]
        elif token == ",":
            _next(inner)
        elif inner and inner.names_next():
            inner.key = _unquoted(token)
            found[inner.inside()] = line
        elif token != ":":
            pointer = inner.inside() if inner else ""
            found.setdefault(pointer, line)
            if token in "[{":
                around.append(_Open(pointer=pointer, is_list=token == "["))
    return found


def _next(inner: _Open | None) -> None:
    """The next element or member begins."""
    if inner:
        inner.key = None
        inner.number += 1


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, done = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", done, found.start())
        done = found.start()
        yield found[0], line


def _unquoted(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def line_at(lines: dict[str, int], pointer: str) -> int | None:
    """The line of a place, of what is nearest around it where the file has no such place."""
    while pointer and pointer not in lines:
        pointer = pointer.rpartition("/")[0]
    return lines.get(pointer)


def target(pointer: str) -> str:
    """A pointer into a mapping as people read it: `messages 2 content`, `meta.language`."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    if len(steps) > 2 and steps[0] == "any_of":
        return f"alternative {_counted(steps[1])}: {_target(steps[2:])}"
    return _target(steps)


def _target(steps: list[str]) -> str:
    match steps:
        case ["messages", number, *rest]:
            return " ".join(["messages", _counted(number), *rest[:1]])
        case ["where", number, *_]:
            return f"where {_counted(number)}"
        case ["meta" | "source" as block, key, *_]:
            return f"{block}.{key}"
        case [first, *_]:
            return first
    return "the mapping"


def _counted(number: str) -> str:
    """A place in a list from 1, as people count."""
    return str(int(number) + 1) if number.isdigit() else number


def written(path: str) -> str:
    """A path that may be no valid text, as text: what is none is escaped."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")
