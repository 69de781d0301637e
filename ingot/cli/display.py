"""How previews, checks and outcomes look in a terminal."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ingot.cli.console import plain_text, print_json, replace_names, safe_text, stdout_console
from ingot.converters.errors import count_text
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ingot.agent.model.budget import Usage
    from ingot.agent.privacy import Safe, SafeProblem, SafeValue
    from ingot.agent.proposing.proposal import SafeProposal
    from ingot.agent.reporting.preview import Preview
    from ingot.agent.state import Check, Gate, Outcome, Result, SourceSummary
    from ingot.converters.export.job import ExportResult
    from ingot.converters.output.figures import Figures, Section
    from ingot.converters.output.identity import CommittedResult

Shown = TypeVar("Shown", bound="Figures")
_FIRST_REJECTS = 3
_ROW_LINES = 12  # of a row that is shown
_FIRST_LEFT_OUT = 3
_ROWS = ("read", "converted", "rejected", "filtered")
_RECORDS = ("written", "rejected", "filtered")


def show_preview(console: "Console", seen: "Preview") -> None:
    """Show mapping, the rows of each path, and rows with their records."""
    console.print(plain_text("Mapping", "bold"))
    print_grid(console, seen.lines)
    show_sample(console, seen.sampled, seen.paths)
    for number, (row, record) in enumerate(seen.examples, start=1):
        console.print(plain_text(f"Row {number}", "bold"))
        show_example(console, row, record)
    show_masking(console, seen)


def show_example(console: "Console", row: "SafeValue", record: "SafeValue") -> None:
    """Show a row, of which a long one has its first lines, above its record."""
    from ingot.agent.reporting.preview import record_lines, row_text

    lines = row_text(row).split("\n")
    line_count = len(lines) - _ROW_LINES
    first_lines = lines if line_count <= 1 else [*lines[:_ROW_LINES], f"...(+{line_count:,} lines)"]
    print_grid(console, [("before", "\n".join(first_lines)), *record_lines(record)])


def show_masking(console: "Console", seen: "Preview") -> None:
    """Say that what stands in brackets is hidden on the screen only, where something is."""
    if seen.masked:
        console.print(plain_text("Values in [brackets] are hidden here; the records hold them."))


def show_sample(console: "Console", share: str, paths: "Iterable[Sequence[Safe]]") -> None:
    """Show how many rows give records, and in how many each path is found."""
    console.print(plain_text(f"Sample {share}", "bold"))
    print_grid(console, paths)


def show_evidence(
    console: "Console", proposal: "SafeProposal", check: "Check | None" = None
) -> None:
    """Show the mapper's reasons."""
    from ingot.agent.proposing.proposal import confidence_text

    show_summary(console, proposal, check)
    lines = []
    for one in proposal.evidence:
        other = f"; runner-up: {one.runner_up}" if one.runner_up else ""
        confidence = confidence_text(one.confidence)
        lines.append((one.target, f"{one.choice} ({confidence}): {one.why}{other}"))
    print_grid(console, lines)


def show_failures(console: "Console", check: "Check") -> None:
    """Show failed records by reason, and warnings."""
    if check.failures:
        console.print(plain_text(f"Not converted: {counts_text(check.failures, count_last=True)}"))
    for warning in check.warnings:
        console.print(plain_text(f"warning: {warning}", "yellow"))


def show_problems(
    console: "Console",
    problems: "Iterable[SafeProblem]",
    *,
    harmless: bool = False,
    in_chat: bool = False,
) -> None:
    """Show the problems of a mapping, as warnings where it is converted anyway.

    In a conversation with what to type, elsewhere with where in the document each one is.
    """
    from ingot.agent.judging.problem_words import told_problems

    word, style = ("warning", "yellow") if harmless else ("problem", "red")
    for one in told_problems([*problems]):
        text = one.typed if in_chat else str(one)
        console.print(plain_text(f"{word}: {text}", style), soft_wrap=True)


def show_gates(console: "Console", gates: "Sequence[Gate]") -> None:
    """Show every gate with its figure and limit."""
    console.print(plain_text("Gates", "bold"))
    print_grid(console, [(one.name, one.state, one.figure, one.limit) for one in gates])


def show_rules_proposal(console: "Console", proposal: "SafeProposal") -> None:
    """Show what the rules propose instead of a model's proposal."""
    from ingot.agent.privacy import Redactor
    from ingot.agent.reporting.mapping_words import mapping_lines

    show_summary(console, proposal, heading="The rules propose something else: ")
    if proposal.mapping:
        print_grid(console, [*mapping_lines(proposal.mapping, Redactor("redacted"))])


def show_drift(console: "Console", check: "Check | None") -> None:
    """Show what changed since the mapping was made."""
    changes = (check and check.drift) or ()
    if changes:
        console.print(plain_text("Changed since the mapping was made", "bold"))
        from ingot.agent.judging.drift import CHANGE_HEADS, change_cells

        print_grid(console, [CHANGE_HEADS, *map(change_cells, changes)])


def show_summary(
    console: "Console",
    proposal: "SafeProposal | Outcome",
    check: "Check | None" = None,
    heading: str = "",
) -> None:
    """Show the decision, what a record is made of, and the strongest doubts."""
    from ingot.agent.proposing.proposal import doubts_text
    from ingot.agent.reporting.report import author_text, reason_text

    line = f"{proposal.decision} {author_text(proposal)}: {reason_text(proposal, check)}"
    console.print(plain_text(f"{heading}{line}", "bold"), soft_wrap=True)
    if doubts := doubts_text(proposal.evidence):
        console.print(plain_text(f"doubts: {doubts}", "yellow"), soft_wrap=True)


def show_outcome(console: "Console", outcome: "Outcome") -> None:
    """Show the summary at the end of a run."""
    if outcome.decision:
        show_summary(console, outcome, outcome.check)
    print_grid(console, _outcome_lines(outcome))
    show_drift(console, outcome.check)


def _outcome_lines(outcome: "Outcome") -> Iterable[tuple[str, str]]:
    from ingot.agent.privacy import Redactor
    from ingot.agent.reporting.mapping_words import mapping_lines

    check, result = outcome.check, outcome.result
    yield from (("table", one) for one in (outcome.source.tables if outcome.source else ()))
    if check:
        failures = counts_text(check.failures, count_last=True)
        share = f"{check.ok_rows}/{check.rows} rows give records"
        yield "sample", f"{share} ({failures})" if failures else share
    if outcome.mapping and check:
        lines = mapping_lines(outcome.mapping, Redactor("redacted"))
        yield from (line for line in lines if line[0] == "where")
    for gate in outcome.gates:
        if gate.state != "pass":
            yield "gate", f"{gate.name}: {gate.figure} (limit: {gate.limit})"
    if outcome.source and outcome.source.read:
        yield "reads", _read_text(outcome.source)
    if outcome.source and outcome.source.left_out_count:
        yield "left out", _left_out_text(outcome.source)
    if outcome.usage:
        yield "model", usage_text(outcome.usage)
    yield from note_rows(outcome.notes)
    if result:
        yield from _result_lines(result)


def show_files(console: "Console", source: "SourceSummary") -> None:
    """Show which files or tables are read, and which are left out and why."""
    console.print(plain_text("Files", "bold"))
    rows: list[tuple[str, str]] = [("read", one) for one in source.read]
    if remaining := source.files - len(rows):
        rows.append(("read", count_text(remaining, "more file" if rows else "file")))
    rows += [("left out", f"{one.name}: {one.why}") for one in source.left_out]
    if remaining := source.left_out_count - len(source.left_out):
        rows.append(("left out", count_text(remaining, "more file")))
    print_grid(console, rows)


def _read_text(source: "SourceSummary") -> str:
    """Return a text such as `3 files: a.csv (90 bytes), b.csv (80 bytes) and 1 more`."""
    names = source.read[:_FIRST_LEFT_OUT]
    suffix = f" and {source.files - len(names):,} more" if source.files > len(names) else ""
    return f"{count_text(source.files, 'file')}: {', '.join(names)}{suffix}"


def _left_out_text(source: "SourceSummary") -> str:
    """Return a text such as `4 files: README.md, a.png, b.png and 1 more`."""
    count = source.left_out_count
    names = [one.name for one in source.left_out[:_FIRST_LEFT_OUT]]
    suffix = f" and {count - len(names):,} more" if count > len(names) else ""
    hint = "; ingot lake run converts files of another shape" if source.other_bytes else ""
    return f"{count_text(count, 'file')}: {', '.join(names)}{suffix}{hint}"


def usage_text(usage: "Usage") -> str:
    """Return which model was asked, how much was sent to it, and what that took."""
    from ingot.agent.model.budget import spent_text

    model = f"{usage.model} at {usage.host}"
    calls = count_text(usage.calls, "call")
    if usage.chars_sent:
        amount = f"{usage.chars_sent:,} characters in {calls}"
        return f"{model}: {amount}, {spent_text(usage)}"
    if usage.remembered:
        return f"{model}: an earlier answer was used, nothing was sent"
    return f"{model}: nothing was sent" + (f" in {calls}" if usage.calls else "")


def _result_lines(result: "Result") -> Iterable[tuple[str, str]]:
    from ingot.agent.privacy import redact

    manifest = result.manifest
    yield "rows", counts_text({name: manifest.rows[name] for name in _ROWS})
    yield "records", counts_text({name: manifest.records[name] for name in _RECORDS})
    if manifest.rejects:
        yield "rejected", counts_text(manifest.rejects, count_last=True)
    for one in result.first_rejects[:_FIRST_REJECTS]:
        yield "", one
    for key, count in manifest.warnings.meta.items():
        yield "warning", f"meta.{key}: null in {count:,} records"
    yield from (("warning", redact(text)) for text in manifest.warnings.texts())
    for warning in manifest.warnings.mapping:
        yield "warning", warning
    if manifest.tokens:
        tokens = manifest.tokens
        yield "tokens", f"{tokens.tokens:,} in {tokens.documents:,} documents"
    yield from note_rows(result.notes)
    yield "files", result.out


def note_rows(notes: Iterable[str]) -> list[tuple[str, str]]:
    """Return a row of a summary for each note."""
    return [("note", replace_names(note)) for note in notes]


def show_notes(console: "Console", notes: Iterable[str]) -> None:
    """Show what people should know about a result."""
    for note in notes:
        console.print(plain_text(f"note: {replace_names(note)}", "yellow"), soft_wrap=True)


def reject_lines(rejects: Mapping[str, int], file: Path | str) -> Iterator[tuple[str, str]]:
    """Yield a line per reason, and where the rejected rows are listed."""
    yield from (("rejected", f"{count:,}: {reason}") for reason, count in rejects.items())
    if rejects:
        yield "", f"each is listed with its position in {file}"


def counts_text(counts: Mapping[str, Json], *, count_last: bool = False) -> str:
    """Return "990 converted, 10 rejected", or "bad_row 3" with the count last."""
    return ", ".join(
        f"{name} {n:,}" if count_last else f"{n:,} {name}" for name, n in counts.items()
    )


def print_grid(console: "Console", rows: Iterable[Sequence[str]]) -> None:
    """Print rows of cells; outside of a terminal lines are not wrapped."""
    cells = [[safe_text(cell) for cell in row] for row in rows]
    if console.is_terminal:
        console.print(_make_table(cells))
        return
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        # A last cell of several lines continues below itself.
        start = sum(widths[:-1]) + 2 * (len(widths) - 1)
        padded = [
            cell + " " * (width - cell_width(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        first, *further_lines = row[-1].split("\n")
        lines = ["  ".join([*padded[:-1], first]), *(" " * start + line for line in further_lines)]
        for line in lines:
            console.print(plain_text(line.rstrip()), soft_wrap=True)


def print_figures(
    figures: "Shown",
    sections: "Callable[[Shown], Iterable[Section]]",
    page: "Callable[[Shown], str] | None" = None,
    *,
    notes: Iterable[str] = (),
    html: Path | None = None,
    as_json: bool,
    apart: bool = False,
) -> None:
    """Print figures as JSON or section by section; write their page where one is asked for."""
    if page is not None and html is not None:
        write_output(html, page(figures))
    if as_json:
        print_json(figures.to_document())
        return
    console = stdout_console()
    facts, *tables = sections(figures)
    files = [] if html is None else [("page", str(html))]
    show_sections(console, [replace(facts, rows=[*facts.rows, *files]), *tables], apart=apart)
    show_notes(console, notes)


def show_sections(
    console: "Console", sections: "Iterable[Section]", *, apart: bool = False
) -> None:
    """Show sections that hold something, with blank lines between them where they stand apart."""
    for number, one in enumerate(one for one in sections if one.rows or one.text):
        if apart and number:
            console.print()
        if one.title:
            console.print(plain_text(one.title, "bold"))
        if one.text:
            style = "yellow" if one.is_warning else ""
            console.print(plain_text(one.text, style), soft_wrap=True)
        if one.rows:
            print_grid(console, one.rows)


def _make_table(cells: Sequence[Sequence[str]]) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", overflow="fold", max_width=40)
    for _ in range(max((len(row) for row in cells), default=1) - 1):
        table.add_column(overflow="fold")
    for row in cells:
        table.add_row(*(plain_text(cell) for cell in row))
    return table


def cell_width(text: str) -> int:
    """Return the width of the longest line of a text in a terminal."""
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")))


def write_output(path: Path, content: bytes | str) -> None:
    """Write a file whole or not at all; what of a text is no UTF-8, as in names, is escaped."""
    from ingot.converters.output.files import output_errors, write_file

    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    with output_errors(path):
        write_file(path, content)


def print_result(
    done: "CommittedResult | ExportResult",
    lines: Iterable[Sequence[str]],
    uses: Iterable[Sequence[str]] = (),
    *,
    as_json: bool,
    **more: Json,
) -> None:
    """Print a finished folder: lines, notes and its place; or a document with what is more."""
    if as_json:
        notes = list(done.notes)
        print_json(
            {"out": str(done.out), "already_done": done.already_done, "notes": notes, **more}
        )
        return
    print_grid(stdout_console(), [*lines, *note_rows(done.notes), *uses, ("files", str(done.out))])
