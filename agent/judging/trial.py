"""Try a mapping on a sample, and show what it makes of it."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from ingot.agent.context import OpenedSource, Readings
from ingot.agent.judging.problem_words import explain_problem
from ingot.agent.privacy import DIFFERS, NOT_SHOWN, Redactor, SafeProblem
from ingot.agent.state import Check, Order
from ingot.converters.errors import Problem
from ingot.converters.mapping.bind import NO_MAPPING, bind_tree
from ingot.converters.mapping.check import CheckReport, check_mapping, sample_batches
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.executor import Record, RowExecutor
from ingot.converters.mapping.rows.values import row_nodes
from ingot.converters.rows import Json, limit_looks
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A bound mapping beside the reading and sample it was bound to, and what it made of them."""

    reading: OpenedSource
    source: Source
    sample: Sample
    mapping: Mapping
    report: CheckReport


def try_out(
    readings: Readings, order: Order, mapping: Mapping | None, *, where: str, show: int = 3
) -> Trial:
    """Run a mapping on the sample. Raises MappingError where a part of it is wrong.

    What the reader guessed is stated in it, so that nobody guesses otherwise; version 1 has no
    place for that.
    """
    mapping = mapping or NO_MAPPING
    reading = readings.read(bind_tree(mapping, where=where).source)
    source, sample = reading.source, reading.sample
    name = order.source_name or source.name
    with limit_looks():
        if mapping.draft is None:
            mapping = replace(mapping, source=source.guessed.with_facts(mapping.source))
        mapping = bind_tree(mapping, [row.value for row in sample.rows], where=where)
        report = check_mapping(
            mapping, sample, source_name=name, language=order.language, show=show
        )
    return Trial(reading=reading, source=source, sample=sample, mapping=mapping, report=report)


def report_facts(report: CheckReport, redactor: Redactor | None = None) -> Check:
    """Return the counts of a report; it holds no rows or records, and no secrets."""
    redactor = redactor or Redactor("redacted")
    values = {
        one.name: getattr(report, one.name) for one in fields(Check) if hasattr(report, one.name)
    }
    warnings = tuple(map(redactor.text, (*report.warnings, *report.others)))
    files = tuple((redactor.text(file), rows, count) for file, rows, count in report.loss.files)
    return Check(**{**values, "warnings": warnings, "loss": replace(report.loss, files=files)})


Example = tuple[Json, Record]

# Problems that quote what stands in the data, or what a mapping makes of it.
_QUOTING = ("unresolved_path", "unmapped_value", "not_text", "ambiguous_lookup", "too_deep")


def shown_report(
    order: Order, trial: Trial, *, show: int = 3, share: str = "redacted"
) -> CheckReport:
    """The report of a trial as it may be shown: rows, records and quoted values are redacted ones.

    Whoever writes a mapping spells values as they like, so what is shown is what the mapping makes
    of redacted rows. Where that is not as much as of the real ones no record is shown, and of files
    that it reads in its own way no row.
    """
    real, sample = trial.report, trial.reading.show_sample(order, share)
    if sample is trial.sample:
        return real
    mapping, name = trial.mapping, order.source_name or trial.source.name
    shown = CheckReport(rows=0, unreadable=0, warnings=())
    rows: list[Json] = [NOT_SHOWN]
    if sample is not None:
        rows = [row.value for row in sample.rows[:show]]
        shown = check_mapping(mapping, sample, source_name=name, language=order.language, show=show)
    if _outcome(shown) != _outcome(real):
        placeholder = DIFFERS if sample else NOT_SHOWN
        placeholders: list[Example] = [(row, {"text": placeholder, "meta": {}}) for row in rows]
        shown = replace(shown, examples=tuple(placeholders) if real.examples else (), rejects=())
    known = {(one.pointer, one.code): one for one in shown.problems}
    return replace(
        real,
        examples=shown.examples,
        rejects=shown.rejects,
        others=shown.others,
        problems=tuple(_shown_problem(one, known) for one in real.problems),
    )


def shown_problems(
    problems: Iterable[Problem], mapping: Mapping, redactor: Redactor
) -> tuple[SafeProblem, ...]:
    """Return problems of a mapping in words, as they may be shown."""
    return tuple(redactor.problem(explain_problem(one, mapping)) for one in problems)


def _outcome(report: CheckReport) -> Json:
    """What becomes of the sampled rows, in counts that are shown of the real ones."""
    return [report.rows, report.ok_rows, report.records, report.failures]


def _shown_problem(problem: Problem, shown: dict[tuple[str, str], Problem]) -> Problem:
    """A problem of the real rows, with what is quoted of the redacted ones."""
    if problem.code not in _QUOTING:
        return problem
    # An unresolved path is one of the mapping itself.
    got = problem.got if problem.code == "unresolved_path" else "(not shown)"
    hidden = replace(problem, got=got, nearest=None, values=())
    return shown.get((problem.pointer, problem.code), hidden)


def sample_records(trial: Trial) -> Iterator[Record]:
    """Yield the records of the sample; of a file with very many the middle is left out."""
    executor = RowExecutor(trial.mapping, source_name="", language=None)
    for batch in sample_batches(trial.sample, trial.mapping):
        yield from executor.look(batch).records


def row_records(
    trial: Trial, mapping: Mapping | None = None
) -> Iterator[tuple[Json, Sequence[Record]]]:
    """Yield each row, or group of rows, of the sample with the records that a mapping makes of it.

    The mapping is that of the trial, or one like it that groups rows in the same way.
    """
    executor = RowExecutor(mapping or trial.mapping, source_name="", language=None)
    for batch in sample_batches(trial.sample, trial.mapping):
        for node in row_nodes(batch):
            yield node.value, executor.row(node)[0]


def record_hashes(trial: Trial) -> Counter[bytes]:
    """Return the hashes of the texts of the sample's records, without metadata and masks."""
    return Counter(
        hashlib.sha256(json.dumps(_record_texts(record)).encode()).digest()
        for record in sample_records(trial)
    )


def _record_texts(record: Record) -> list[Json]:
    turns = [[message["role"], message["content"]] for message in record.get("messages", ())]
    return [record.get("text"), record.get("system"), turns]
