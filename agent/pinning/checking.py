"""Whether a pinned sample reads like the source that it was taken from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from ingot.agent.pinning.hiding import Hiding
from ingot.agent.pinning.task import Content
from ingot.converters.errors import SourceError
from ingot.converters.readers import Source, SourceFile, open_source
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.readers.stretch import Broken
from ingot.converters.rows import Json

_FACTS = ("format", "layout", "encoding", "delimiter", "quote", "header")
_BROKEN = object()


def stated(source: Source) -> SourceSpec:
    """The facts that were asked for and those that the reader guessed, as a mapping states them."""
    own = {f.name: getattr(source.spec, f.name) for f in fields(SourceSpec)}
    guessed = {f.name: getattr(source.guessed, f.name) for f in fields(SourceSpec)}
    return SourceSpec(**{k: guessed[k] if value is None else value for k, value in own.items()})


def faults(
    location: str, source: Source, written: Mapping[str, Content], hiding: Hiding
) -> list[str]:
    """What is wrong with rows: read as a mapping states it the sample gives others than it should.

    Args:
        location: the pinned data.
        source: the original.
        written: what was pinned of the files of the source, by name.
        hiding: what redacted it.
    """
    spec = replace(stated(source), json_fields=None)
    if spec.columns is not None:
        spec = replace(spec, columns=tuple(map(hiding.text, spec.columns)))
    try:
        again = open_source(location, spec)
        return [*_files(again, written), *_rows(again, written)]
    except SourceError as error:
        return [error.problem]


def _files(again: Source, written: Mapping[str, Content]) -> Iterator[str]:
    names = {file.name for file in again.files}
    for name in sorted(names ^ set(written)):
        yield f"{name}: {'read' if name in names else 'not read'}"


def _rows(again: Source, written: Mapping[str, Content]) -> Iterator[str]:
    for file in again.files:
        content = written.get(file.name)
        if content is None or content.rows is None:
            continue
        if not _alike(_read(again, file), content.rows, file.facts.format == "csv"):
            yield f"{file.name}: other rows"


def _read(again: Source, file: SourceFile) -> list[Json]:
    """The rows of a file in order, `_BROKEN` for those that cannot be read."""
    rows: dict[int, Json] = {}
    for batch in again.batches([file]):
        rows.update(zip(batch.rows, batch.values, strict=True))
        rows.update((bad.row, _BROKEN) for bad in batch.bad)
    return [rows[number] for number in sorted(rows)]


def _alike(got: Sequence[Json], wanted: Sequence[Json], table: bool) -> bool:
    """Whether rows are equal; the names of a table's columns may be redacted."""
    if len(got) != len(wanted):
        return False
    for one, other in zip(got, wanted, strict=True):
        if (one is _BROKEN) != (type(other) is Broken):
            return False
        if one is not _BROKEN and (list(one.values()) if table else one) != (
            list(other.values()) if table else other
        ):
            return False
    return True


def differences(location: str, source: Source, names: Mapping[str, str]) -> list[str]:
    """What the reader takes the sample for without stated facts, where that is not the original.

    Args:
        location: the pinned data.
        source: the original.
        names: of the pinned files of the source, original name to pinned name.
    """
    try:
        again = open_source(location, source.spec)
    except SourceError as error:
        return [f"unless the mapping states more of the source: {error.problem}"]
    now = {file.name: file for file in again.files}
    return [
        f"{names[file.name]}: {said}"
        for file in source.files
        if file.name in names
        for said in _unlike(file, now.get(names[file.name]))
    ]


def _unlike(old: SourceFile, new: SourceFile | None) -> Iterator[str]:
    if new is None:
        yield "not read unless source.files names it"
        return
    for fact in _FACTS:
        before, after = getattr(old.facts, fact), getattr(new.facts, fact)
        if before != after:
            yield f"{fact} {after!r} is found, in the original {before!r}"
    before, after = len(old.facts.columns), len(new.facts.columns)
    if before != after:
        yield f"{after} columns are found, in the original {before}"
