"""Pin a sample: a few raw rows of a source in a folder beside its mapping.

What is written is read again, and has to read like the source that it was taken from.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.agent.privacy import Door, redact
from ingot.agent.review.pinning import pinned_sample
from ingot.agent.review.pinning.pinned_sample import DATA, PinnedFile, SampleFacts
from ingot.agent.review.pinning.row_choice import (
    MOST_BYTES,
    REASONS,
    Counts,
    PinnableRows,
    PinnedContent,
    PinTask,
    choose_fitting,
    select_wanted,
)
from ingot.agent.review.pinning.row_extraction import extract_rows
from ingot.agent.review.pinning.sample_redaction import NotRedactableError, SampleRedactor
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.rows import Json
from ingot.converters.sources import Source, SourceFile, open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.formats.row_chunks import BrokenRow
from ingot.converters.sources.sample import Sample, draw_sample
from ingot.converters.sources.storage.archives import TarMember
from ingot.converters.sources.storage.listing import literal_glob
from ingot.converters.sources.tables.partitions import drop_partitions

_FACTS = ("format", "layout", "encoding", "delimiter", "quote", "header")
_BROKEN: Json = object()


def _sample_faults(
    location: str, source: Source, written: Mapping[str, PinnedContent], hiding: SampleRedactor
) -> list[str]:
    """Say which rows differ when the sample is read as a mapping states it."""
    facts = source.guessed.to_document() | source.spec.to_document()
    lines = any(content.as_lines for content in written.values())
    spec = SourceSpec.from_document({} if lines else facts | {"json_fields": None, "query": None})
    if spec.columns is not None:
        spec = replace(spec, columns=tuple(map(hiding.text, spec.columns)))
    try:
        return list(_row_faults(open_source(location, spec), written))
    except SourceError as error:
        return [error.problem]


def _row_faults(again: Source, written: Mapping[str, PinnedContent]) -> Iterator[str]:
    names = {file.name for file in again.files}
    for name in sorted(names ^ set(written)):
        yield f"{name}: {'read' if name in names else 'not read'}"
    for file in again.files:
        content = written.get(file.name)
        if content is not None and content.rows is not None:
            table = file.facts.format == "csv"
            rows = [drop_partitions(row, file) for row in _read_rows(again, file)]
            got = _comparable_rows(rows, table=table)
            want = [drop_partitions(row, file) for row in content.rows]
            if got != _comparable_rows(want, table=table):
                yield f"{file.name}: other rows"


def _read_rows(again: Source, file: SourceFile) -> list[Json]:
    """Return the rows of a file in order, `_BROKEN` for those that cannot be read."""
    rows: dict[int, Json] = {}
    for batch in again.batches([file]):
        rows.update(zip(batch.rows, batch.values, strict=True))
        rows.update((bad.row, _BROKEN) for bad in batch.bad)
    return [rows[number] for number in sorted(rows)]


def _comparable_rows(rows: Sequence[Json], *, table: bool) -> list[Json]:
    """Return rows to compare; the names of a table's columns may be redacted."""
    known = [_BROKEN if type(row) is BrokenRow else row for row in rows]
    return [list(row.values()) if table and row is not _BROKEN else row for row in known]


def _detection_differences(location: str, source: Source, names: Mapping[str, str]) -> list[str]:
    """Say what the reader detects in the sample, if that differs from the original."""
    try:
        again = open_source(location, source.spec)
    except SourceError as error:
        return [f"unless the mapping states more of the source: {error.problem}"]
    now = {file.name: file for file in again.files}
    return [
        f"{names[file.name]}: {said}"
        for file in source.files
        if file.name in names
        for said in _spec_differences(file, now.get(names[file.name]))
    ]


def _spec_differences(old: SourceFile, new: SourceFile | None) -> Iterator[str]:
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


ROWS = 200
# Files that the source leaves out, and that another source.files would name.
_OTHERS, _ROWS_OF_OTHER, _BYTES_OF_OTHER = 10, 10, 64 << 10


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    """The contents to pin by original name, and how much was left out."""

    contents: dict[str, PinnedContent]
    rows: dict[str, int]
    bad: int
    left: int


def pin_sample(
    source: Source,
    sample: Sample,
    folder: Path,
    *,
    share: str = "redacted",
    rows: int = ROWS,
    seed: int = 0,
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
    hiding = SampleRedactor(share, keep, Door.of(share, source, sample, *known).rows)
    counts = dict.fromkeys(REASONS, 0)
    names = list(dict.fromkeys([r.file for r in sample.rows] + [b.file for b in sample.bad]))
    by_name = {file.name: file for file in source.files}
    tasks = [
        PinTask(
            file=by_name[name],
            spec=source.spec,
            want=select_wanted(sample, by_name[name]),
            hiding=hiding,
            counts=counts,
        )
        for name in sorted(names, key=list(by_name).index)
    ]
    cuts = [extract_rows(task) for task in tasks]
    with pinned_sample.stage_sample(folder) as stage:
        facts = _write_readable(stage, source, cuts, hiding, counts, rows)
        if not facts.rows:
            said = ", ".join(f"{k} {v}" for k, v in counts.items() if v)
            raise OutputError(str(folder), f"no sampled row can be pinned ({said or 'no rows'})")
        facts = replace(
            facts,
            seed=seed,
            complete=sample.complete and not any(counts.values()),
            total_rows=sample.total_rows,
        )
        pinned_sample.commit_sample(stage, facts, folder)


def _write_readable(
    stage: Path,
    source: Source,
    cuts: list[PinnableRows],
    hiding: SampleRedactor,
    counts: Counts,
    rows: int,
) -> SampleFacts:
    """Write the data and read it again; write less if it reads differently."""
    others = list(_extract_others(source, hiding))
    wrong: list[str] = []
    direct = source.listing.direct
    for more, bad in ((others, True), ([], True), ([], False)):
        attempt = _make_attempt(cuts, more, rows, bad=bad)
        every = [*source.files, *(one.file for one in more)]
        names = pinned_sample.redact_names([f for f in every if f.name in attempt.contents], hiding)
        lines = {name for name in names if attempt.contents[name].as_lines}
        for name in lines:  # `README.jsonl` would be a note beside data
            names[name] += ".jsonl" if "." in names[name].rpartition("/")[2] else ".txt.jsonl"
        every = [file for file in every if file.name in names]
        contents = {names[name]: attempt.contents[name] for name in names}
        files = {names[file.name]: file for file in every}
        data = dict(pinned_sample.store_files(source, files, contents, hiding))
        top = pinned_sample.write_files(stage, DATA, data)
        location = str(top / next(iter(data))) if direct and data else str(top)
        main = {file.name: names[file.name] for file in source.files if file.name in names}
        written = {name: contents[name] for name in main.values()}
        wrong = _sample_faults(location, source, written, hiding) if main else []
        if not wrong:
            break
    counts["over_limit"] += attempt.left
    notes = [note for one in cuts if one.file.name in names for note in one.notes]
    unlike = _detection_differences(location, source, main) if main and not lines else []
    return SampleFacts(
        source_name=hiding.text(source.name),
        direct=direct,
        lines=bool(lines),
        share="raw" if hiding.off else "redacted",
        rows=sum(attempt.rows[name] for name in main),
        bad=attempt.bad,
        files=tuple(
            PinnedFile(
                name=names[file.name],
                bytes=file.bytes,
                rows=attempt.rows[file.name],
                main=file.name in main,
            )
            for file in every
        ),
        left_out=dict(counts),
        stored=tuple(f"{DATA}/{name}" for name in data),
        differs=tuple(redact(one) for one in (*wrong, *notes, *unlike)),
    )


def _make_attempt(
    cuts: Sequence[PinnableRows], others: Sequence[PinnableRows], rows: int, *, bad: bool
) -> _Attempt:
    """Take as many rows as fit; without those that cannot be read if not `bad`."""
    allowed = [[n for n, broken in enumerate(one.broken) if bad or not broken] for one in cuts]
    sizes = [[one.sizes[n] for n in some] for one, some in zip(cuts, allowed, strict=True)]
    chosen = choose_fitting(sizes, rows, MOST_BYTES)
    kept = [[some[n] for n in sorted(of)] for some, of in zip(allowed, chosen, strict=True)]
    small = [
        sorted(choose_fitting([one.sizes], _ROWS_OF_OTHER, _BYTES_OF_OTHER)[0]) for one in others
    ]
    contents: dict[str, PinnedContent] = {}
    counted: dict[str, int] = {}
    for one, numbers in zip((*cuts, *others), (*kept, *small), strict=True):
        if numbers:
            try:
                contents[one.file.name] = one.write(numbers)
            except NotRedactableError:
                continue
            counted[one.file.name] = len(numbers)
    broken = sum(one.broken[n] for one, some in zip(cuts, kept, strict=True) for n in some)
    left = sum(len(one.sizes) for one in cuts) - sum(map(len, kept))
    return _Attempt(contents=contents, rows=counted, bad=broken, left=left)


def _extract_others(source: Source, hiding: SampleRedactor) -> Iterator[PinnableRows]:
    """Yield a few rows of files that the source leaves out and that could be named instead."""
    if any(isinstance(f.place, TarMember) and f.place.offset is None for f in source.files):
        return  # each would cost a pass over the archive
    left = [one.name for one in source.left_out if one.kind in ("unselected", "shape")]
    for name in left[:_OTHERS]:
        try:
            other = source.with_spec(SourceSpec(files=(f"/{literal_glob(name)}",)))
            sample = draw_sample(other, rows=_ROWS_OF_OTHER, max_bytes=_BYTES_OF_OTHER)
            for file in other.files:
                want = select_wanted(sample, file)
                if want and file.name == name:
                    yield extract_rows(
                        PinTask(
                            file=file,
                            spec=other.spec,
                            want=want,
                            hiding=hiding,
                            counts=dict.fromkeys(REASONS, 0),
                        )
                    )
        except SourceError:
            continue
