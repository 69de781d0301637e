"""What of a file is pinned: those sampled rows that can be, as a file of its kind."""

from collections.abc import Iterator, Sequence

from ingot.agent.pinning import columnar, trees
from ingot.agent.pinning.documents import cut_document, document_of
from ingot.agent.pinning.hiding import NotRedactableError
from ingot.agent.pinning.spelling import hidden, hidden_header, spelled
from ingot.agent.pinning.task import Content, Cut, Task, encoded, has_bom, opened, parts_of
from ingot.agent.pinning.units import Unit, read, units, whole_text
from ingot.agent.pinning.wanted import MOST_ROW, Wanted, found_in, unparsed
from ingot.converters.readers.facts import FileFacts
from ingot.converters.readers.files import json_root
from ingot.converters.readers.stretch import Broken
from ingot.converters.sample import UNKNOWN_ROW

# How far a file is read for rows whose number is known, and for those that only their value tells.
_READ, _COMPARED = 256 << 20, 16 << 20


def cut(task: Task) -> Cut:
    """The rows of a file that may be pinned.

    Raises:
        SourceError: the file cannot be read.
    """
    if task.file.facts.format in ("parquet", "arrow"):
        return _cut_table(task)
    if task.file.facts.format == "json" and (doc := document_of(task)) is not None:
        return cut_document(task, *doc)
    return _cut_text(task)


# --- Parquet and Arrow


def _cut_table(task: Task) -> Cut:
    numbers = [one.row for one in task.want if one.row != UNKNOWN_ROW]
    where = str(task.file.place)
    is_file = False
    with opened(task.file) as stream:
        if task.file.facts.format == "parquet":
            table = columnar.parquet_table(stream, where, numbers)
        else:
            table = columnar.arrow_table(stream, where, numbers)
    if task.file.facts.format == "arrow":
        with opened(task.file) as stream:
            is_file = columnar.is_arrow_file(stream)
    sizes = columnar.sizes(table)
    small = [place for place, size in enumerate(sizes) if size <= MOST_ROW]
    task.counts.add("too_large", len(sizes) - len(small))
    broken = [type(one.value) is Broken for one in task.want if one.row != UNKNOWN_ROW]

    def write(kept: Sequence[int]) -> Content:
        chosen = columnar.chosen(table, [small[place] for place in kept])
        hid = columnar.hidden_table(chosen, task.hiding)
        if task.file.facts.format == "parquet":
            return Content(data=columnar.parquet_bytes(hid), rows=None)
        return Content(data=columnar.arrow_bytes(hid, as_file=is_file), rows=None)

    return Cut(
        file=task.file,
        main=task.main,
        sizes=[sizes[place] for place in small],
        broken=[broken[place] for place in small],
        write=write,
    )


# --- lines, records, and JSON that is streamed


def _cut_text(task: Task) -> Cut:
    header, found = _spelt(task)
    chosen = [unit for one in found if (unit := _hidden_or_none(task, one)) is not None]
    bom = has_bom(task.file)

    def write(kept: Sequence[int]) -> Content:
        rows = [chosen[place] for place in kept]
        data = _assembled(task, header, rows)
        return Content(data=encoded(data, task.file, bom=bom), rows=[one.value for one in rows])

    return Cut(
        file=task.file,
        main=task.main,
        sizes=[len(unit.spelled) + 1 for unit in chosen],
        broken=[unit.broken for unit in chosen],
        write=write,
    )


def _spelt(task: Task) -> tuple[Unit | None, list[Unit]]:
    """The header of a table, and the wanted rows as they are spelt, in the sample's order."""
    facts = task.file.facts
    header = first = None
    known = all(one.row != UNKNOWN_ROW for one in task.want)
    with opened(task.file) as stream:
        parts = parts_of(task.file, stream)
        if facts.format == "text" and task.spec.root == "$":
            return None, [whole_text(parts, MOST_ROW)]
        rows = units(task.file, task.spec, parts)
        if facts.format == "csv" and facts.header:
            header = _next(rows, facts)
        elif facts.format == "csv" and task.spec.columns is not None:
            first = _next(rows, facts)  # read without the stated columns it may be a header
            rows = _again(first, rows)
        most_bytes = _READ if known else _COMPARED
        by_place = found_in(rows, task.want, task.spec, facts, most_bytes)
    found = [unit for one in task.want if (unit := by_place.get(one.place) or _anew(task, one))]
    if first is not None and all(unit.spelled != first.spelled for unit in found):
        found.insert(0, first)
    if header is not None:
        header = hidden_header(header, facts, task.hiding)
    return header, found


def _next(rows: Iterator[Unit], facts: FileFacts) -> Unit | None:
    unit = next(rows, None)
    return None if unit is None else read(unit, facts)


def _again(first: Unit | None, rest: Iterator[Unit]) -> Iterator[Unit]:
    if first is not None:
        yield first
    yield from rest


def _anew(task: Task, one: Wanted) -> Unit | None:
    """A row that was not met again, spelt from its value."""
    facts = task.file.facts
    streamed = facts.format != "json" or facts.layout == "values" or _streams(task)
    if type(one.value) is not Broken and streamed:
        try:
            return spelled(unparsed(one.value, task.spec), facts, key=one.key)
        except NotRedactableError:
            pass
    task.counts.add("not_found")
    return None


def _streams(task: Task) -> bool:
    root = json_root(task.file, task.spec)
    return root.streams and root.rest is None


def _hidden_or_none(task: Task, unit: Unit) -> Unit | None:
    if not unit.spelled or len(unit.spelled) > MOST_ROW:
        task.counts.add("too_large")
        return None
    try:
        shown = hidden(unit, task.file.facts, task.hiding)
        if task.file.facts.encoding.startswith(("utf-16", "utf-32")):
            shown.spelled.decode()  # bytes that are no text have no place among wide characters
    except (NotRedactableError, UnicodeDecodeError):
        task.counts.add("not_redactable")
        return None
    return shown


def _assembled(task: Task, header: Unit | None, rows: Sequence[Unit]) -> bytes:
    facts = task.file.facts
    if facts.format == "text" and task.spec.root == "$":
        return rows[0].spelled
    if facts.format == "json" and not (
        facts.layout == "values" and task.spec.root in (None, "[*]")
    ):
        return trees.streamed(rows, json_root(task.file, task.spec))
    return b"".join(map(_line, [header, *rows] if header else rows))


def _line(unit: Unit) -> bytes:
    end = b"\r\n" if unit.spelled.endswith(b"\r") else b"\n"
    return end * unit.gap + unit.spelled + b"\n"
