"""Pin a sample: a few rows of a source in a folder beside its mapping.

Rows are stored as JSON Lines. Where the mapping states how bytes become rows (an encoding, a
delimiter, a root, ...) they are stored in the form of their files, so that a review can replay what
it states. What is written is read again, and has to give the same rows.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.agent.context import Readings
from ingot.agent.privacy import Redactor, redact
from ingot.agent.proposing.order import Order
from ingot.agent.review.pinning import pinned_sample
from ingot.agent.review.pinning.pinned_sample import DATA, PinnedFile, SampleFacts
from ingot.agent.review.pinning.sample_redaction import (
    NotRedactableError,
    PinnableRow,
    SafeBytes,
    SafeRow,
    SampleRedactor,
    named_values,
    redact_row,
)
from ingot.agent.review.pinning.source_form import (
    NoFormError,
    needs_form,
    write_form,
    write_lines,
)
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.mapping import language
from ingot.converters.mapping.bind import bind_tree
from ingot.converters.paths import compile_path
from ingot.converters.rows import Json
from ingot.converters.sources import Source, SourceFile, open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.formats.row_chunks import change_at
from ingot.converters.sources.sample import UNKNOWN_ROW, Sample, spread_order
from ingot.converters.sources.tables.partitions import drop_partitions

ROWS = 200
_MOST_ROW, _MOST_BYTES = 256 << 10, 2 << 20
_RUN = 10  # neighbours that are kept or dropped together, as a sample takes them
_FEWER = (200, 100, 50, 20, 10, 5, 3, 1)  # elements kept of every list of a row that is too large
_FEW_KEYS = 50
# Why sampled rows are not pinned; `not_found`: they cannot be read.
REASONS = ("too_large", "over_limit", "not_redactable", "not_found")


@dataclass(frozen=True, kw_only=True, slots=True)
class _PinnedRows:
    """The redacted rows to pin of one file, and the name that it may be shown by."""

    file: SourceFile
    name: str
    rows: Sequence[SafeRow]


def pin_sample(
    source: Source,
    sample: Sample,
    folder: Path,
    *,
    share: str = "redacted",
    rows: int = ROWS,
    keep: Collection[str] = (),
    known: Sequence[Json] = (),
    overwrite: bool = False,
) -> None:
    """Write a pinned sample: of the same source, sample and options the same bytes.

    What `known` rows, of another reading of the files, name a secret is hidden too.
    """
    if share == "none":
        problem = "a pinned sample holds values, and none are to be shared"
        raise OutputError(str(folder), problem, "leave it out, or: --share-values redacted")
    pinned_sample.check_free(folder, overwrite=overwrite)
    hiding = SampleRedactor(share, keep, Redactor.of(share, source, sample, *known).rows)
    counts = dict.fromkeys(REASONS, 0) | {"not_found": len(sample.bad)}
    notes: list[str] = []
    pinned = _choose_rows(source, sample, hiding, rows, counts, notes)
    if not pinned:
        left_out = ", ".join(f"{reason} {count}" for reason, count in counts.items() if count)
        raise OutputError(str(folder), f"no sampled row can be pinned ({left_out or 'no rows'})")
    with pinned_sample.stage_sample(folder) as stage:
        facts = _write_rows(stage, source, pinned, hiding)
        facts = replace(
            facts,
            source_name=hiding.text(source.name),
            share="raw" if hiding.off else "redacted",
            complete=sample.complete and not any(counts.values()),
            total_rows=sample.total_rows,
            left_out=counts,
            differs=(*facts.differs, *map(redact, notes)),
        )
        pinned_sample.commit_sample(stage, facts, folder)


def pin_beside(
    file: Path, mapping: language.Mapping, readings: Readings, order: Order, *, overwrite: bool
) -> Path | None:
    """Pin rows of the data beside the file of its mapping; None where none of them may be shown."""
    read = readings.read(bind_tree(mapping, where=str(file)).source)
    folder, share = pinned_sample.pinned_folder(file), order.share_values
    if read.show_sample(order, share) is None:
        return None
    pin_sample(
        read.source,
        read.sample,
        folder,
        share=share,
        keep=named_values(mapping),
        known=read.redactors[share].rows,
        overwrite=overwrite,
    )
    return folder


def _choose_rows(
    source: Source,
    sample: Sample,
    hiding: SampleRedactor,
    rows: int,
    counts: dict[str, int],
    notes: list[str],
) -> list[_PinnedRows]:
    """Choose the rows that fit; count those that are left out."""
    sampled = {row.file for row in sample.rows}
    rows_by_file = [
        (file, list(_redact_rows(source, sample, file, hiding, counts, notes)))
        for file in source.files
        if file.name in sampled
    ]
    sizes = [[_measure_row(row.value) for row in of_file] for _, of_file in rows_by_file]
    chosen = _choose_fitting(sizes, rows, _MOST_BYTES)
    counts["over_limit"] = sum(map(len, sizes)) - sum(map(len, chosen))
    names = pinned_sample.redact_names([file for file, _ in rows_by_file], hiding)
    return [
        _PinnedRows(file=file, name=names[file.name], rows=[of_file[n] for n in sorted(numbers)])
        for (file, of_file), numbers in zip(rows_by_file, chosen, strict=True)
        if numbers and file.name in names
    ]


def _redact_rows(
    source: Source,
    sample: Sample,
    file: SourceFile,
    hiding: SampleRedactor,
    counts: dict[str, int],
    notes: list[str],
) -> Iterator[SafeRow]:
    """Yield the redacted rows of a file that are not too large, and count the others."""
    is_document = file.facts.layout == "object" and source.spec.root in (None, "$")
    line = file.facts.format in ("csv", "text")
    for row in _list_rows(sample, file, source.spec):
        if is_document and _measure_row(row.value) > _MOST_ROW:
            row = replace(row, value=_shorten_lists(row.value))
            notes.append(f"{file.name}: one row, whose lists are cut short")
        try:
            hidden = redact_row(row, hiding, line=line)
        except NotRedactableError:
            counts["not_redactable"] += 1
            continue
        if _measure_row(hidden.value) > _MOST_ROW:
            counts["too_large"] += 1
        else:
            yield hidden


def _write_rows(
    stage: Path, source: Source, pinned: Sequence[_PinnedRows], hiding: SampleRedactor
) -> SampleFacts:
    """Write the rows in the form of their files if a review needs it, else as JSON Lines."""
    if needs_form(source.spec) and (data := _form_bytes(pinned, source.spec)):
        spec = replace(source.guessed.with_facts(source.spec), json_fields=None, query=None)
        if spec.columns is not None:
            spec = replace(spec, columns=tuple(map(hiding.text, spec.columns)))
        facts = _store_files(stage, source, pinned, data, spec)
        if not facts.differs:
            return facts
    lines = [replace(one, name=name) for one, name in zip(pinned, _line_names(pinned), strict=True)]
    data = {one.name: write_lines(one.rows) for one in lines}
    return replace(_store_files(stage, source, lines, data, SourceSpec()), lines=True)


def _form_bytes(pinned: Sequence[_PinnedRows], spec: SourceSpec) -> dict[str, SafeBytes]:
    """Return the files in their own form, none if one of them cannot be written so."""
    try:
        return {one.name: write_form(one.file, spec, one.rows) for one in pinned}
    except NoFormError:
        return {}


def _line_names(pinned: Sequence[_PinnedRows]) -> Iterator[str]:
    """Yield the names of files of JSON Lines; `README.jsonl` would be a note beside data."""
    used: set[str] = set()
    for one in pinned:
        name = one.name if "." in one.name.rpartition("/")[2] else f"{one.name}.txt"
        while name in used or not name.endswith(".jsonl"):
            name += ".jsonl"
        used.add(name)
        yield name


def _store_files(
    stage: Path,
    source: Source,
    pinned: Sequence[_PinnedRows],
    data: Mapping[str, SafeBytes],
    spec: SourceSpec,
) -> SampleFacts:
    """Write the files, and read them again to say how they differ from the rows."""
    top = pinned_sample.write_files(stage, DATA, data)
    direct = source.listing.direct and len(data) == 1 and not any("/" in name for name in data)
    location = str(top / next(iter(data))) if direct else str(top)
    return SampleFacts(
        direct=direct,
        rows=sum(len(one.rows) for one in pinned),
        files=tuple(
            PinnedFile(name=one.name, bytes=one.file.bytes, rows=len(one.rows)) for one in pinned
        ),
        stored=tuple(f"{DATA}/{name}" for name in data),
        differs=tuple(map(redact, _reading_faults(location, spec, pinned))),
    )


def _reading_faults(
    location: str, spec: SourceSpec, pinned: Sequence[_PinnedRows]
) -> Iterator[str]:
    """Yield what differs when the written files are read."""
    rows = {one.name: [row.value for row in one.rows] for one in pinned}
    try:
        reread = open_source(location, spec)
        read = {file.name: _read_rows(reread, file) for file in reread.files}
    except SourceError as error:
        yield error.problem
        return
    for name in sorted({*read, *rows}):
        if name not in read or name not in rows:
            yield f"{name}: {'read' if name in read else 'not read'}"
        elif read[name] != rows[name]:
            yield f"{name}: other rows"


def _read_rows(source: Source, file: SourceFile) -> list[Json]:
    """Return the rows of a file in order, `None` for those that cannot be read."""
    rows: dict[int, Json] = {}
    for batch in source.batches([file]):
        rows |= zip(batch.rows, batch.values, strict=True)
        rows |= {broken.row: None for broken in batch.bad}
    return [drop_partitions(rows[number], file) for number in sorted(rows)]


def _list_rows(sample: Sample, file: SourceFile, spec: SourceSpec) -> list[PinnableRow]:
    """Return the sampled rows of a file, in the order of the file if that is known."""
    rows = [one for one in sample.rows if one.file == file.name]
    if all(one.row != UNKNOWN_ROW for one in rows):
        rows.sort(key=lambda one: one.row)
    return [
        PinnableRow(key=one.key, value=unparse_fields(drop_partitions(one.value, file), spec))
        for one in rows
    ]


def unparse_fields(value: Json, spec: SourceSpec) -> Json:
    """Return a row as it was before `json_fields` were parsed; blank fields stay null."""
    for name in reversed(spec.json_fields or ()):
        value = change_at(value, compile_path(name).steps, _spell_field)
    return value


def _spell_field(value: Json) -> Json:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _measure_row(value: Json) -> int:
    """Return the bytes of a row as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def _shorten_lists(value: Json) -> Json:
    """Shorten the lists of a large row until it fits; return it as it is if it never does."""
    for count in _FEWER:
        small = _keep_first(value, count)
        if _measure_row(small) <= _MOST_ROW:
            return small
    return value


def _keep_first(value: Json, count: int) -> Json:
    """Keep at most `count` elements of every list, and few keys of objects with many."""
    if isinstance(value, list):
        return [_keep_first(inner, count) for inner in value[:count]]
    if isinstance(value, dict):
        keys = list(value) if len(value) <= _FEW_KEYS else list(value)[:count]
        return {key: _keep_first(value[key], count) for key in keys}
    return value


def _choose_fitting(sizes: Sequence[Sequence[int]], rows: int, most_bytes: int) -> list[set[int]]:
    """Choose rows of each file: no more than `rows` and `most_bytes`, spread evenly."""
    chosen: list[set[int]] = [set() for _ in sizes]
    runs = [
        (file, range(start, min(start + _RUN, len(of_file))))
        for file, of_file in enumerate(sizes)
        for start in range(0, len(of_file), _RUN)
    ]
    for run_number in spread_order(len(runs)):
        file, run = runs[run_number]
        for number in run:
            if rows > 0 and sizes[file][number] <= most_bytes:
                chosen[file].add(number)
                rows, most_bytes = rows - 1, most_bytes - sizes[file][number]
    return chosen
