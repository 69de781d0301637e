"""JSON files that fit into memory, as documents with some of their rows."""

from collections.abc import Sequence
from dataclasses import replace

from ingot.agent.pinning import trees
from ingot.agent.pinning.task import Content, Cut, Task, encoded, has_bom, opened, parts_of
from ingot.agent.pinning.units import read_json
from ingot.agent.pinning.wanted import MOST_ROW, marks
from ingot.converters.readers.files import json_root
from ingot.converters.readers.root import Root
from ingot.converters.readers.stretch import Broken
from ingot.converters.sample import UNKNOWN_ROW


def document_of(task: Task) -> tuple[trees.Document, Root] | None:
    """The file as one value with its rows; None where it is too large, damaged, or several."""
    file = task.file
    if file.facts.layout == "values" and task.spec.root in (None, "[*]"):
        return None
    root = json_root(file, task.spec)
    data = bytearray()
    with opened(file) as stream:
        for part in parts_of(file, stream):
            data += part
            if len(data) > trees.MOST_DOCUMENT:
                return None
    value = read_json(bytes(data))
    if type(value) is Broken:
        return None
    doc = trees.document(value, data.decode(), root)
    return None if doc is None else (doc, root)


def cut_document(task: Task, doc: trees.Document, root: Root) -> Cut:
    """The rows of a document that may be pinned. Raises SourceError."""
    notes: tuple[str, ...] = ()
    if root.whole and trees.size_of(doc.value) > MOST_ROW:
        small = trees.small_enough(doc.value, MOST_ROW)
        if small is not None:
            doc = replace(doc, value=small)
            notes = (f"{task.file.name}: one row, whose lists are cut short",)
    numbers = [number for number in _numbers(task, doc) if _may_stay(task, doc, number)]
    sizes = [trees.size_of(doc.row(number)) for number in numbers]
    if sizes and not root.whole:
        sizes[0] += trees.size_of(trees.cut_down(doc, ()))

    def write(kept: Sequence[int]) -> Content:
        value = doc.value if root.whole else trees.cut_down(doc, [numbers[place] for place in kept])
        hid = task.hiding.value(value)
        text = doc.text
        if notes or hid != doc.value or task.hiding.finds(text):
            text = trees.written(hid, like=text)
        again = trees.document(hid, text, root)
        rows = [] if again is None else [again.row(number) for number in range(len(again.ways))]
        return Content(data=encoded(text.encode(), task.file, bom=has_bom(task.file)), rows=rows)

    return Cut(
        file=task.file,
        main=task.main,
        sizes=sizes,
        broken=[False] * len(numbers),
        write=write,
        notes=notes,
    )


def _numbers(task: Task, doc: trees.Document) -> list[int]:
    """The rows of the document that are wanted, in its order."""
    known = {one.row for one in task.want if one.row != UNKNOWN_ROW}
    unknown = [one for one in task.want if one.row == UNKNOWN_ROW]
    if unknown:
        rows = (doc.row(number) for number in range(len(doc.ways)))
        known.update(marks(rows, unknown, task.spec))
    found = sorted(number for number in known if number < len(doc.ways))
    task.counts.add("not_found", max(0, len(task.want) - len(found)))
    return found


def _may_stay(task: Task, doc: trees.Document, number: int) -> bool:
    if trees.size_of(doc.row(number)) > MOST_ROW:
        task.counts.add("too_large")
        return False
    if not trees.hideable(doc, number, task.hiding):
        task.counts.add("not_redactable")
        return False
    return True
