"""Cut JSON files that fit into memory down to some of their rows.

What is around the rows stays if it is small, so that another `root` can be tried.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ingot.agent.review.pinning.row_choice import (
    MOST_ROW,
    PinnableRows,
    PinnedContent,
    PinTask,
    encode_text,
    has_bom,
    match_marks,
    open_file,
    utf8_parts,
)
from ingot.agent.review.pinning.row_texts import Unit, read_json
from ingot.agent.review.pinning.sample_redaction import NotRedactableError
from ingot.converters.paths import Node, RowError, compile_path
from ingot.converters.rows import Json
from ingot.converters.sources.formats.json_rows import RowRoot
from ingot.converters.sources.formats.row_chunks import BrokenRow
from ingot.converters.sources.readers import file_root
from ingot.converters.sources.sample import UNKNOWN_ROW

MOST_DOCUMENT = 32 << 20  # larger ones are streamed
_AROUND = 64 << 10  # bytes of what stands around the rows
_FEW = (20, 5, 2, 0)  # elements kept of what holds no row
_FEWER = (200, 100, 50, 20, 10, 5, 3, 1)  # elements kept of every list of a document that is a row
_FEW_KEYS = 50

Way = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _JsonDocument:
    """A whole JSON file: its value, and the way to every row in it, in order."""

    value: Json
    ways: tuple[Way, ...]
    text: str

    def row(self, number: int) -> Json:
        """Return the row of a number."""
        value = self.value
        for step in self.ways[number]:
            value = value[step]
        return value


def _parse_document(value: Json, text: str, root: RowRoot) -> _JsonDocument | None:
    """Find the rows of a parsed file; None if they are not values in it (keys, `^`)."""
    if root.whole:
        return _JsonDocument(value=value, ways=((),), text=text)
    top = Node(value)
    try:
        nodes = compile_path(root.text).nodes(top)
    except RowError:
        return None
    ways = [_row_way(node, top) for node in nodes]
    if any(way is None for way in ways) or len(set(ways)) < len(ways):
        return None
    return _JsonDocument(value=value, ways=tuple(way for way in ways if way is not None), text=text)


def _row_way(node: Node, top: Node) -> Way | None:
    steps: list[str | int] = []
    at: Node | None = node
    while at is not None and at is not top:
        if at.key is None:
            return None
        steps.append(at.key)
        at = at.parent
    return None if at is None else tuple(reversed(steps))


def _cut_down(doc: _JsonDocument, numbers: Collection[int]) -> Json:
    """Keep these rows of a document, and a little of what is around them."""
    kept = [doc.ways[number] for number in sorted(numbers)]
    value: Json = None
    for few in _FEW:
        value = _cut_value(doc.value, kept, doc.ways, few)
        rows = sum(_json_size(doc.row(number)) for number in numbers)
        if _json_size(value) - rows <= _AROUND:
            break
    return value


def _cut_value(value: Json, kept: Sequence[Way], ways: Sequence[Way], few: int) -> Json:
    """Keep all of a row, and of what leads to rows only those that are kept."""
    if () in kept:
        return value
    if not ways:
        return _shorten_value(value, few)
    inner, inside = _group_by_head(kept), _group_by_head(ways)
    if isinstance(value, dict):
        left = {k: v for k, v in value.items() if k in inner or k not in inside}
        few_others = [key for key in left if key not in inner][: few or 1]
        return {
            k: _cut_value(v, inner.get(k, ()), inside.get(k, ()), few)
            for k, v in left.items()
            if k in inner or k in few_others
        }
    others = [n for n in range(len(value)) if n not in inside][:few]
    return [
        _cut_value(v, inner.get(n, ()), inside.get(n, ()), few)
        for n, v in enumerate(value)
        if n in inner or n in others
    ]


def _group_by_head(ways: Sequence[Way]) -> dict[str | int, list[Way]]:
    out: dict[str | int, list[Way]] = {}
    for way in ways:
        out.setdefault(way[0], []).append(way[1:])
    return out


def _shorten_value(value: Json, few: int) -> Json:
    """Keep at most `few` elements of every list, and few keys of objects with many."""
    if isinstance(value, list):
        return [_shorten_value(inner, few) for inner in value[:few]]
    if isinstance(value, dict):
        keys = list(value) if len(value) <= _FEW_KEYS else list(value)[:few]
        return {key: _shorten_value(value[key], few) for key in keys}
    return value


def _shrink_to_fit(value: Json, most_bytes: int) -> Json:
    """Shorten the lists of a document that is one row until it fits; None if it never does."""
    for few in _FEWER:
        small = _shorten_value(value, few)
        if _json_size(small) <= most_bytes:
            return small
    return None


def _json_size(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _format_document(value: Json, like: str) -> str:
    """Spell a document, indented and escaped like another text."""
    begun = like[:2000].strip()
    indent = 2 if "\n" in begun else None
    return json.dumps(value, ensure_ascii=like.isascii(), indent=indent) + "\n"


def stream_document(rows: Sequence[Unit], root: RowRoot) -> bytes:
    """Return a document of nothing but these rows, at the place that the root names."""
    begin = "".join(f"{{{json.dumps(name)}: " for name, _ in root.keys).encode()
    end = b"}" * len(root.keys)
    if not root.keyed:
        inner = b"[\n" + b",\n".join(unit.spelled for unit in rows) + b"\n]"
    else:
        pairs = [json.dumps(unit.key).encode() + b": " + unit.spelled for unit in rows]
        inner = b"{\n" + b",\n".join(pairs) + b"\n}"
    return begin + inner + end + b"\n"


def load_document(task: PinTask) -> tuple[_JsonDocument, RowRoot] | None:
    """Load the file with its rows; None if it is too large, damaged, or several values."""
    file = task.file
    if file.facts.layout == "values" and task.spec.root in (None, "[*]"):
        return None
    root = file_root(file, task.spec)
    data = bytearray()
    with open_file(file) as stream:
        for part in utf8_parts(file, stream):
            data += part
            if len(data) > MOST_DOCUMENT:
                return None
    value = read_json(bytes(data))
    if type(value) is BrokenRow:
        return None
    doc = _parse_document(value, data.decode(), root)
    return None if doc is None else (doc, root)


def extract_from_document(task: PinTask, doc: _JsonDocument, root: RowRoot) -> PinnableRows:
    """Take the rows of a document that may be pinned. Raises SourceError."""
    notes: tuple[str, ...] = ()
    if root.whole and _json_size(doc.value) > MOST_ROW:
        small = _shrink_to_fit(doc.value, MOST_ROW)
        if small is not None:
            doc = replace(doc, value=small)
            notes = (f"{task.file.name}: one row, whose lists are cut short",)
    numbers = [number for number in _wanted_numbers(task, doc) if _may_stay(task, doc, number)]
    sizes = [_json_size(doc.row(number)) for number in numbers]
    if sizes and not root.whole:
        sizes[0] += _json_size(_cut_down(doc, ()))

    def write(kept: Sequence[int]) -> PinnedContent:
        value = doc.value if root.whole else _cut_down(doc, [numbers[place] for place in kept])
        hid = task.hiding.value(value)
        text = doc.text
        if notes or hid != doc.value or task.hiding.finds(text):
            text = _format_document(hid, like=text)
        again = _parse_document(hid, text, root)
        rows = [] if again is None else [again.row(number) for number in range(len(again.ways))]
        return PinnedContent(
            data=encode_text(text.encode(), task.file, bom=has_bom(task.file)), rows=rows
        )

    return PinnableRows(
        file=task.file,
        main=task.main,
        sizes=sizes,
        broken=[False] * len(numbers),
        write=write,
        notes=notes,
    )


def _wanted_numbers(task: PinTask, doc: _JsonDocument) -> list[int]:
    known = {one.row for one in task.want if one.row != UNKNOWN_ROW}
    unknown = [one for one in task.want if one.row == UNKNOWN_ROW]
    if unknown:
        rows = (doc.row(number) for number in range(len(doc.ways)))
        known.update(match_marks(rows, unknown, task.spec))
    found = sorted(number for number in known if number < len(doc.ways))
    task.counts.add("not_found", max(0, len(task.want) - len(found)))
    return found


def _may_stay(task: PinTask, doc: _JsonDocument, number: int) -> bool:
    if _json_size(doc.row(number)) > MOST_ROW:
        task.counts.add("too_large")
        return False
    try:
        task.hiding.value(doc.row(number))
    except NotRedactableError:
        task.counts.add("not_redactable")
        return False
    return True
