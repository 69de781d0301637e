"""A pinned sample: a few raw rows of a source in a folder beside its mapping.

`foo.sample/` beside `foo.json` holds `sample.json` (schemas/sample.schema.json) and `data/`, which
reads like the original, small and redacted: a machine without the data can try other mappings on
it, and other ways of reading it. docs/pinned-samples.md is the reference.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingot.agent.pinning.checking import differences, faults
from ingot.agent.pinning.cutting import cut
from ingot.agent.pinning.files import hidden_names, stored
from ingot.agent.pinning.hiding import Hiding, NotRedactableError, named_values
from ingot.agent.pinning.laying import check_free, lay, put, staged
from ingot.agent.pinning.samples import DATA, Pinned, pinned, pinned_folder
from ingot.agent.pinning.task import Content, Cut, Task
from ingot.agent.pinning.wanted import MOST_BYTES, Counts, fitting, wanted
from ingot.agent.redaction import redact
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.readers import Source, SourceFile
from ingot.converters.readers.archives import TarMember
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.rows import Json
from ingot.converters.sample import Sample, draw

__all__ = ["Pinned", "check_free", "named_values", "pin", "pinned", "pinned_folder"]

ROWS = 200
# Files that the source leaves out, and that another source.files would name.
_OTHERS, _ROWS_OF_OTHER, _BYTES_OF_OTHER = 10, 10, 64 << 10
_OTHER = ("not in source.files", "another shape than the main files")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    """What is pinned: the contents by original name, and whether it was all that could be."""

    contents: dict[str, Content]
    rows: dict[str, int]
    bad: int
    left: int


def pin(
    source: Source,
    sample: Sample,
    folder: Path,
    *,
    share: str = "redacted",
    rows: int = ROWS,
    seed: int = 0,
    keep: Collection[str] = (),
    overwrite: bool = False,
) -> None:
    """Write a pinned sample.

    The same source, sample and options give the same bytes.

    Args:
        source: opened with the facts that the mapping states.
        sample: drawn from it.
        folder: `NAME.sample` beside `NAME.json`.
        share: `redacted`, or `raw` for the rows as they are.
        rows: how many rows are pinned at most.
        seed: that the sample was drawn with.
        keep: texts of the data that the mapping names (`named_values`).
        overwrite: replace an older sample.

    Raises:
        OutputError: it is not to be written (`share` is `none`), cannot be, the folder is taken, or
            no row can be pinned.
        SourceError: the source cannot be read again.
    """
    if share == "none":
        problem = "a pinned sample holds values, and none are to be shared"
        raise OutputError(str(folder), problem, "leave it out, or: --share-values redacted")
    check_free(folder, overwrite=overwrite)
    hiding, counts = Hiding(share, keep), Counts()
    names = list(dict.fromkeys([r.file for r in sample.rows] + [b.file for b in sample.bad]))
    by_name = {file.name: file for file in source.files}
    tasks = [
        Task(
            file=by_name[name],
            spec=source.spec,
            want=wanted(sample, name),
            hiding=hiding,
            counts=counts,
        )
        for name in sorted(names, key=list(by_name).index)
    ]
    cuts = [cut(task) for task in tasks]
    with staged(folder) as stage:
        about = _laid(stage, source, cuts, hiding, counts, rows)
        pinned_rows = about["rows"]
        if not pinned_rows:
            said = ", ".join(f"{k} {v}" for k, v in counts.by_reason.items() if v)
            raise OutputError(str(folder), f"no sampled row can be pinned ({said or 'no rows'})")
        missing = sum(counts.by_reason.values())
        about |= {
            "share": share,
            "seed": seed,
            "complete": sample.complete and not missing,
            "total_rows": sample.total_rows,
        }
        put(stage, {key: about[key] for key in _ORDER}, folder)


_ORDER = (
    "version",
    "source_name",
    "direct",
    "share",
    "seed",
    "rows",
    "bad",
    "complete",
    "total_rows",
    "files",
    "left_out",
    "stored",
    "differs",
)


def _laid(
    stage: Path, source: Source, cuts: list[Cut], hiding: Hiding, counts: Counts, rows: int
) -> dict[str, Json]:
    """Write the data, read it again, and go back to less where it reads otherwise."""
    others = list(_others(source, hiding))
    wrong: list[str] = []
    for more, bad in ((others, True), ([], True), ([], False)):
        attempt = _attempt(cuts, more, rows, bad=bad)
        every = [*source.files, *(one.file for one in more)]
        names = hidden_names([f for f in every if f.name in attempt.contents], hiding)
        files = {names[file.name]: file for file in every if file.name in names}
        contents = {names[name]: attempt.contents[name] for name in names}
        data = dict(stored(source, files, contents, hiding))
        top = lay(stage, DATA, data)
        location = str(top / next(iter(data))) if _direct(source) and data else str(top)
        main = {
            names[file.name]: contents[names[file.name]]
            for file in source.files
            if file.name in names
        }
        wrong = faults(location, source, main, hiding) if main else []
        if not wrong:
            break
    counts.add("over_limit", attempt.left)
    notes = [note for one in cuts if one.file.name in names for note in one.notes]
    of_main = {file.name: names[file.name] for file in source.files if file.name in names}
    unlike = differences(location, source, of_main) if of_main else []
    return {
        "version": 1,
        "source_name": hiding.text(source.name),
        "direct": _direct(source),
        "rows": sum(attempt.rows[file.name] for file in source.files if file.name in names),
        "bad": attempt.bad,
        "files": _facts(every, names, attempt, {one.file.name for one in more}),
        "left_out": dict(counts.by_reason),
        "stored": [f"{DATA}/{name}" for name in data],
        "differs": [redact(one) for one in (*wrong, *notes, *unlike)],
    }


def _direct(source: Source) -> bool:
    return source.listing.direct


def _facts(
    files: Sequence[SourceFile], names: Mapping[str, str], attempt: _Attempt, others: set[str]
) -> list[Json]:
    return [
        {
            "name": names[file.name],
            "bytes": file.bytes,
            "rows": attempt.rows[file.name],
            "main": file.name not in others,
        }
        for file in files
        if file.name in names
    ]


def _attempt(cuts: Sequence[Cut], others: Sequence[Cut], rows: int, *, bad: bool) -> _Attempt:
    """The contents of as many rows as fit; without those that cannot be read if not `bad`."""
    allowed = [[n for n, broken in enumerate(one.broken) if bad or not broken] for one in cuts]
    sizes = [[one.sizes[n] for n in some] for one, some in zip(cuts, allowed, strict=True)]
    chosen = fitting(sizes, rows, MOST_BYTES)
    kept = [[some[n] for n in sorted(of)] for some, of in zip(allowed, chosen, strict=True)]
    small = [sorted(fitting([one.sizes], _ROWS_OF_OTHER, _BYTES_OF_OTHER)[0]) for one in others]
    contents: dict[str, Content] = {}
    counted: dict[str, int] = {}
    for one, numbers in zip((*cuts, *others), (*kept, *small), strict=True):
        if numbers:
            try:
                contents[one.file.name] = one.write(numbers)
            except NotRedactableError:
                continue
            counted[one.file.name] = len(numbers)
    broken = sum(one.broken[n] for one, some in zip(cuts, kept, strict=True) for n in some)
    possible = sum(len(one.sizes) for one in cuts)
    left = possible - sum(map(len, kept))
    return _Attempt(contents=contents, rows=counted, bad=broken, left=left)


def _others(source: Source, hiding: Hiding) -> Iterator[Cut]:
    """A few rows of files that the source leaves out and that could be named instead."""
    if any(isinstance(f.place, TarMember) and f.place.offset is None for f in source.files):
        return  # each would cost a pass over the archive
    left = [one.name for one in source.left_out if one.why.startswith(_OTHER)]
    for name in left[:_OTHERS]:
        try:
            other = source.with_spec(SourceSpec(files=(_glob(name),)))
            sample = draw(other, rows=_ROWS_OF_OTHER, max_bytes=_BYTES_OF_OTHER)
            for file in other.files:
                want = wanted(sample, file.name)
                if want and file.name == name:
                    yield cut(
                        Task(
                            file=file,
                            spec=other.spec,
                            want=want,
                            hiding=hiding,
                            counts=Counts(),
                            main=False,
                        )
                    )
        except SourceError:
            continue


def _glob(name: str) -> str:
    """A glob that chooses one file, or with it some that differ in a sign of globs."""
    return "/" + "".join("?" if char in "*?[!" else char for char in name)
