"""JSON documents cut down to some of their rows.

What is around the rows stays as far as it is small, so that another `root` can be tried.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ingot.agent.pinning.hiding import Hiding, NotRedactableError
from ingot.agent.pinning.units import Unit
from ingot.converters.paths import Node, RowError, compile_path
from ingot.converters.readers.root import Root
from ingot.converters.rows import Json

MOST_DOCUMENT = 32 << 20  # larger ones are streamed
_AROUND = 64 << 10  # bytes of what stands around the rows
_FEW = (20, 5, 2, 0)  # elements kept of what holds no row
_FEWER = (200, 100, 50, 20, 10, 5, 3, 1)  # elements kept of every list of a document that is a row
_FEW_KEYS = 50

Way = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A whole JSON file: its value, and the way to every row in it, in order."""

    value: Json
    ways: tuple[Way, ...]
    text: str

    def row(self, number: int) -> Json:
        """The row of a number."""
        value = self.value
        for step in self.ways[number]:
            value = value[step]
        return value


def document(value: Json, text: str, root: Root) -> Document | None:
    """A parsed file with its rows; None where they are not values in it (keys, `^`)."""
    if root.whole:
        return Document(value=value, ways=((),), text=text)
    top = Node(value)
    try:
        nodes = compile_path(root.text).nodes(top)
    except RowError:
        return None
    ways = [_way(node, top) for node in nodes]
    if any(way is None for way in ways) or len(set(ways)) < len(ways):
        return None
    return Document(value=value, ways=tuple(way for way in ways if way is not None), text=text)


def _way(node: Node, top: Node) -> Way | None:
    steps: list[str | int] = []
    at: Node | None = node
    while at is not None and at is not top:
        if at.key is None:
            return None
        steps.append(at.key)
        at = at.parent
    return None if at is None else tuple(reversed(steps))


def cut_down(doc: Document, numbers: Collection[int]) -> Json:
    """The document with these rows, and a little of what is around them."""
    kept = [doc.ways[number] for number in sorted(numbers)]
    value: Json = None
    for few in _FEW:
        value = _cut(doc.value, kept, doc.ways, few)
        rows = sum(size_of(doc.row(number)) for number in numbers)
        if size_of(value) - rows <= _AROUND:
            break
    return value


def _cut(value: Json, kept: Sequence[Way], ways: Sequence[Way], few: int) -> Json:
    """What is left of a value: all of a row, of what leads to rows those that are kept."""
    if () in kept:
        return value
    if not ways:
        return shortened(value, few)
    inner, inside = _by_head(kept), _by_head(ways)
    if isinstance(value, dict):
        left = {k: v for k, v in value.items() if k in inner or k not in inside}
        few_others = [key for key in left if key not in inner][: few or 1]
        return {
            k: _cut(v, inner.get(k, ()), inside.get(k, ()), few)
            for k, v in left.items()
            if k in inner or k in few_others
        }
    others = [n for n in range(len(value)) if n not in inside][:few]
    return [
        _cut(v, inner.get(n, ()), inside.get(n, ()), few)
        for n, v in enumerate(value)
        if n in inner or n in others
    ]


def _by_head(ways: Sequence[Way]) -> dict[str | int, list[Way]]:
    out: dict[str | int, list[Way]] = {}
    for way in ways:
        out.setdefault(way[0], []).append(way[1:])
    return out


def shortened(value: Json, few: int) -> Json:
    """A value with at most `few` elements of every list and few keys of objects with many."""
    if isinstance(value, list):
        return [shortened(inner, few) for inner in value[:few]]
    if isinstance(value, dict):
        keys = list(value) if len(value) <= _FEW_KEYS else list(value)[:few]
        return {key: shortened(value[key], few) for key in keys}
    return value


def small_enough(value: Json, most_bytes: int) -> Json:
    """A document that is one row with its lists shortened until it fits; None if it never does."""
    for few in _FEWER:
        small = shortened(value, few)
        if size_of(small) <= most_bytes:
            return small
    return None


def size_of(value: Json) -> int:
    """Bytes of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def written(value: Json, like: str) -> str:
    """A document as text, indented and escaped like another text."""
    begun = like[:2000].strip()
    indent = 2 if "\n" in begun else None
    return json.dumps(value, ensure_ascii=like.isascii(), indent=indent) + "\n"


def hideable(doc: Document, number: int, hiding: Hiding) -> bool:
    """Whether a row can be redacted."""
    try:
        hiding.value(doc.row(number))
    except NotRedactableError:
        return False
    return True


def streamed(rows: Sequence[Unit], root: Root) -> bytes:
    """A document of nothing but these rows, at the place that the root names."""
    begin = "".join(f"{{{json.dumps(name)}: " for name in root.names).encode()
    end = b"}" * len(root.names)
    if not root.keyed:
        inner = b"[\n" + b",\n".join(unit.spelled for unit in rows) + b"\n]"
    else:
        pairs = [json.dumps(unit.key).encode() + b": " + unit.spelled for unit in rows]
        inner = b"{\n" + b",\n".join(pairs) + b"\n}"
    return begin + inner + end + b"\n"
