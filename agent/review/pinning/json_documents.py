"""JSON documents cut down to some of their rows.

What is around the rows stays as far as it is small, so that another `root` can be tried.

JSON files that fit into memory, as documents with some of their rows.
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
from ingot.agent.review.pinning.sample_redaction import NotRedactableError, SampleRedactor
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
class JsonDocument:
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


def parse_document(value: Json, text: str, root: RowRoot) -> JsonDocument | None:
    """A parsed file with its rows; None where they are not values in it (keys, `^`)."""
    if root.whole:
        return JsonDocument(value=value, ways=((),), text=text)
    top = Node(value)
    try:
        nodes = compile_path(root.text).nodes(top)
    except RowError:
        return None
    ways = [_row_way(node, top) for node in nodes]
    if any(way is None for way in ways) or len(set(ways)) < len(ways):
        return None
    return JsonDocument(value=value, ways=tuple(way for way in ways if way is not None), text=text)


def _row_way(node: Node, top: Node) -> Way | None:
    steps: list[str | int] = []
    at: Node | None = node
    while at is not None and at is not top:
        if at.key is None:
            return None
        steps.append(at.key)
        at = at.parent
    return None if at is None else tuple(reversed(steps))


def cut_down(doc: JsonDocument, numbers: Collection[int]) -> Json:
    """The document with these rows, and a little of what is around them."""
    kept = [doc.ways[number] for number in sorted(numbers)]
    value: Json = None
    for few in _FEW:
        value = _cut_value(doc.value, kept, doc.ways, few)
        rows = sum(json_size(doc.row(number)) for number in numbers)
        if json_size(value) - rows <= _AROUND:
            break
    return value


def _cut_value(value: Json, kept: Sequence[Way], ways: Sequence[Way], few: int) -> Json:
    """What is left of a value: all of a row, of what leads to rows those that are kept."""
    if () in kept:
        return value
    if not ways:
        return shorten_value(value, few)
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


def shorten_value(value: Json, few: int) -> Json:
    """A value with at most `few` elements of every list and few keys of objects with many."""
    if isinstance(value, list):
        return [shorten_value(inner, few) for inner in value[:few]]
    if isinstance(value, dict):
        keys = list(value) if len(value) <= _FEW_KEYS else list(value)[:few]
        return {key: shorten_value(value[key], few) for key in keys}
    return value


def shrink_to_fit(value: Json, most_bytes: int) -> Json:
    """A document that is one row with its lists shortened until it fits; None if it never does."""
    for few in _FEWER:
        small = shorten_value(value, few)
        if json_size(small) <= most_bytes:
            return small
    return None


def json_size(value: Json) -> int:
    """Bytes of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def format_document(value: Json, like: str) -> str:
    """A document as text, indented and escaped like another text."""
    begun = like[:2000].strip()
    indent = 2 if "\n" in begun else None
    return json.dumps(value, ensure_ascii=like.isascii(), indent=indent) + "\n"


def is_redactable(doc: JsonDocument, number: int, hiding: SampleRedactor) -> bool:
    """Whether a row can be redacted."""
    try:
        hiding.value(doc.row(number))
    except NotRedactableError:
        return False
    return True


def stream_document(rows: Sequence[Unit], root: RowRoot) -> bytes:
    """A document of nothing but these rows, at the place that the root names."""
    begin = "".join(f"{{{json.dumps(name)}: " for name in root.names).encode()
    end = b"}" * len(root.names)
    if not root.keyed:
        inner = b"[\n" + b",\n".join(unit.spelled for unit in rows) + b"\n]"
    else:
        pairs = [json.dumps(unit.key).encode() + b": " + unit.spelled for unit in rows]
        inner = b"{\n" + b",\n".join(pairs) + b"\n}"
    return begin + inner + end + b"\n"


def load_document(task: PinTask) -> tuple[JsonDocument, RowRoot] | None:
    """The file as one value with its rows; None where it is too large, damaged, or several."""
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
    doc = parse_document(value, data.decode(), root)
    return None if doc is None else (doc, root)


def extract_from_document(task: PinTask, doc: JsonDocument, root: RowRoot) -> PinnableRows:
    """The rows of a document that may be pinned. Raises SourceError."""
    notes: tuple[str, ...] = ()
    if root.whole and json_size(doc.value) > MOST_ROW:
        small = shrink_to_fit(doc.value, MOST_ROW)
        if small is not None:
            doc = replace(doc, value=small)
            notes = (f"{task.file.name}: one row, whose lists are cut short",)
    numbers = [number for number in _wanted_numbers(task, doc) if _may_stay(task, doc, number)]
    sizes = [json_size(doc.row(number)) for number in numbers]
    if sizes and not root.whole:
        sizes[0] += json_size(cut_down(doc, ()))

    def write(kept: Sequence[int]) -> PinnedContent:
        value = doc.value if root.whole else cut_down(doc, [numbers[place] for place in kept])
        hid = task.hiding.value(value)
        text = doc.text
        if notes or hid != doc.value or task.hiding.finds(text):
            text = format_document(hid, like=text)
        again = parse_document(hid, text, root)
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


def _wanted_numbers(task: PinTask, doc: JsonDocument) -> list[int]:
    """The rows of the document that are wanted, in its order."""
    known = {one.row for one in task.want if one.row != UNKNOWN_ROW}
    unknown = [one for one in task.want if one.row == UNKNOWN_ROW]
    if unknown:
        rows = (doc.row(number) for number in range(len(doc.ways)))
        known.update(match_marks(rows, unknown, task.spec))
    found = sorted(number for number in known if number < len(doc.ways))
    task.counts.add("not_found", max(0, len(task.want) - len(found)))
    return found


def _may_stay(task: PinTask, doc: JsonDocument, number: int) -> bool:
    if json_size(doc.row(number)) > MOST_ROW:
        task.counts.add("too_large")
        return False
    if not is_redactable(doc, number, task.hiding):
        task.counts.add("not_redactable")
        return False
    return True
