"""discover: what lies at the location, and whether any of it is data.

sample: rows spread over the source; the state keeps only their number.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ingot.agent.context import Context
from ingot.agent.judging.source_gates import row_gates, source_gates
from ingot.agent.privacy import Door, Safe, redact
from ingot.agent.proposing.proposal import Proposal, redacted_proposal
from ingot.agent.proposing.recsys_data import raw_data_proposal
from ingot.agent.state import (
    Gate,
    SafeLeftOut,
    SampleSummary,
    SourceSummary,
    State,
    UnreadFiles,
    UnreadKind,
)
from ingot.converters.convert.options import check_store_options
from ingot.converters.errors import SourceError
from ingot.converters.output.commit import check_destination
from ingot.converters.output.files import is_store_url, output_errors
from ingot.converters.sources import Source, SourceFile, file_kinds
from ingot.converters.sources.facts import LeftKind, LeftOut, stored_bytes
from ingot.converters.sources.file_kinds import DAMAGED_HINT
from ingot.converters.sources.tables.table_folders import tables_read

_SHOWN = 20


def discover(state: State, context: Context) -> State:
    """Open the source; a folder with auxiliary files only is irrelevant, and says which.

    So are logs of clicks, which `ingot ctr` and `ingot criteo` read, and streams that `ingot
    monolith` reads: no model is asked about them.

    A destination that cannot be written and a tokenizer that does not serve are found out here,
    before a model or a person is asked.
    """
    order = state["order"]
    if (out := context.store or order.out) and not order.dry_run:
        if is_store_url(out):
            from ingot.converters.output.store_commit import check_store

            check_store_options(out, order.records, order.tokenizer)
            check_store(out)
        else:
            _check_destination(Path(out))
        if order.tokenizer:
            context.check_tokenizer(order.tokenizer)
    source = context.source(order.source, order.spec)
    raw_data = None if order.mapping else raw_data_proposal(source)
    found: State = {
        "source": summarize_source(source, () if raw_data else None),
        "attempts": (),
        "problems": (),
        "usage": None,
    }
    if source.files and raw_data is None:
        return found
    if raw_data is None and (found_bad := unreadable_reason(source.left_out)):
        raise SourceError(source.location, *found_bad)
    proposal = raw_data or _no_data_proposal(source)
    return {**found, "proposal": redacted_proposal(proposal, Door("redacted"))}


def _check_destination(out: Path) -> None:
    """See that a result could be laid there; a file system may refuse what the rights allow."""
    check_destination(out)
    with output_errors(out):
        parent = next(one for one in out.resolve().parents if one.exists())
        with TemporaryDirectory(prefix=".ingot-", dir=parent):
            pass


def summarize_source(source: Source, gates: tuple[Gate, ...] | None = None) -> SourceSummary:
    """What people want to know about a source; its gates where they are known."""
    tables = tables_read(file.place for file in source.files)
    return SourceSummary(
        name=redact(source.name),
        files=len(source.files),
        bytes=stored_bytes(source.files),
        left_out=tuple(map(redacted_left_out, source.left_out[:_SHOWN])),
        left_out_count=len(source.left_out),
        unread=_summarize_unread(source, _UNREAD),
        unconverted=_summarize_unread(source, _UNCONVERTED),
        other_bytes=_other_bytes(source),
        tables=tuple(redact(one.text(source.name)) for one in tables[:_SHOWN]),
        read=tuple(map(_file_text, source.files[:_SHOWN])) if _are_told(source) else (),
        gates=source_gates(source) if gates is None else gates,
    )


def _are_told(source: Source) -> bool:
    """Whether it is worth a word which files are read: several, or a part of what is there."""
    first = next(iter(source.files), None)
    odd = first is not None and (first.facts.rows is not None or first.facts.header_rows)
    chosen = any(one.kind in ("shape", "unselected") for one in source.left_out)
    return bool(chosen or odd or len(source.files) > 1)


def _file_text(file: SourceFile) -> Safe:
    """A file, its rows or bytes, and where its header is."""
    facts = file.facts
    size = (
        f"{file.bytes:,} bytes"
        if facts.rows is None
        else f"{facts.rows:,} row{'s' * (facts.rows != 1)}"
    )
    rows = " and ".join(map(str, facts.header_rows))
    header = f", header in row {rows}" if facts.preamble and rows else ""
    return redact(f"{file.name} ({size}{header})")


def redacted_left_out(one: LeftOut) -> SafeLeftOut:
    """A file that is not read, as it may be named."""
    return SafeLeftOut(replace(one, name=redact(one.name), why=redact(one.why)))


_UNREAD: Final[Sequence[LeftKind]] = ("unread", "table")
_UNCONVERTED: Final[Sequence[LeftKind]] = (*_UNREAD, "media", "binary")
_TIMES_DATA = 20  # of the bytes that are read: so much more in documents are no notes about them


def _other_bytes(source: Source) -> int:
    """The bytes of data of another shape, and of documents that outweigh what is read by far."""
    shapes = sum(one.bytes for one in source.left_out if one.kind == "shape")
    prose = sum(one.bytes for one in source.left_out if one.kind == "prose")
    much = prose > _TIMES_DATA * sum(file.bytes for file in source.files)
    return shapes + prose * much


def _summarize_unread(source: Source, kinds: Sequence[LeftKind]) -> UnreadFiles | None:
    """The files of some kinds, beside all that look like data; None without them."""
    read = {file.name.rpartition(".")[0] for file in source.files}
    unread = [  # a page beside its own text says nothing more
        one
        for one in source.left_out
        if one.kind in kinds and one.name.rpartition(".")[0] not in read
    ]
    if not unread:
        return None
    left = sum(one.bytes for one in unread)
    sizes: dict[str, list[int]] = {}
    for one in unread:
        sizes.setdefault(one.form or one.why, []).append(one.bytes)
    forms = [UnreadKind(redact(form), len(held), sum(held)) for form, held in sizes.items()]
    others = sum(one.bytes for one in source.left_out if one.kind == "shape")
    return UnreadFiles(
        files=len(unread),
        bytes=left,
        of_bytes=left + others + sum(file.bytes for file in source.files),
        first=redact(file_kinds.unread_text(unread)),
        kinds=tuple(sorted(forms, key=lambda form: (-form.bytes, form.name))),
        hint=redact(file_kinds.unread_hint(one.form for one in unread)),
    )


def unreadable_reason(left_out: Sequence[LeftOut]) -> tuple[str, str] | None:
    """Return what is wrong with a folder of damaged files and unread formats, and what to do."""
    if unread := [one for one in left_out if one.kind in (*_UNREAD, "media")]:
        problem = f"no file in it can be read: {file_kinds.unread_text(unread)}"
        return problem, file_kinds.unread_hint(one.form for one in unread)
    damaged = file_kinds.damaged_text(left_out)
    return (f"no file in it holds data: {redact(damaged)}", DAMAGED_HINT) if damaged else None


def _no_data_proposal(source: Source) -> Proposal:
    names = ", ".join(one.name for one in source.left_out[:5])
    more = len(source.left_out) - 5
    seen = names + (f" and {more} more" if more > 0 else "")
    only = f", only auxiliary files: {seen}" if seen else ": the table or archive is empty"
    return Proposal(
        decision="irrelevant",
        mapping=None,
        confidence=1.0,
        reason=f"There is no data file{only}.",
    )


def sample(state: State, context: Context) -> State:
    """Draw the sample, so that a source that cannot be read fails before anything is proposed."""
    order = state["order"]
    drawn = context.sample(order.source, order.spec)
    if drawn.bad and not drawn.rows:
        first = drawn.bad[0]
        problem = f"none of {len(drawn.bad)} sampled rows can be read"
        hint = f"{first.file} row {first.bad.row}: {redact(first.bad.detail)}"
        raise SourceError(order.source, problem, hint)
    summary = SampleSummary(
        rows=len(drawn.rows),
        bad=len(drawn.bad),
        complete=drawn.complete,
        total_rows=drawn.total_rows,
        gates=row_gates(drawn),
    )
    return {"sample": summary}
