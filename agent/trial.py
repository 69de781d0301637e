"""A mapping document tried on a sample: opened with the document's facts, bound, run, counted."""

from dataclasses import asdict, dataclass

from ingot.agent.context import Context
from ingot.agent.redaction import redact
from ingot.agent.state import Order
from ingot.converters.check import CheckReport, check
from ingot.converters.mapping import Mapping, bind, parse
from ingot.converters.readers import Source
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.rows import Json
from ingot.converters.sample import Sample


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A bound mapping beside the source and sample it was bound to, and what it made of them."""

    source: Source
    sample: Sample
    mapping: Mapping
    report: CheckReport


def try_out(
    context: Context, order: Order, document: dict[str, Json], *, where: str, show: int = 3
) -> Trial:
    """Run a document on the sample.

    Args:
        context: what holds sources and samples.
        order: what was ordered.
        document: the mapping.
        where: what the document is called in messages.
        show: how many examples the report holds.

    Raises:
        MappingError: the document is wrong by itself; what is wrong on the data is in the report.
        SourceError: the source cannot be read with the facts that the document states.
    """
    spec = spec_of(document, where=where)
    source = context.source(order.source, spec)
    sample = context.sample(order.source, spec)
    stated = with_guesses(document, source)
    mapping = bind(stated, [row.value for row in sample.rows], where=where)
    name = order.source_name or source.name
    report = check(mapping, sample, source_name=name, language=order.language, show=show)
    return Trial(source=source, sample=sample, mapping=mapping, report=report)


def spec_of(document: dict[str, Json], *, where: str) -> SourceSpec:
    """The facts about the files that a document states.

    Raises:
        MappingError: the document is wrong by itself.
    """
    return SourceSpec.from_document(parse(document, where=where).get("source"))


def with_guesses(document: dict[str, Json], source: Source) -> dict[str, Json]:
    """A version 2 document that states what the reader guessed, so that nobody guesses otherwise.

    Version 1 has no place for it and stays as it is; bound, it becomes version 2.
    """
    facts = source.guessed.to_document() | document.get("source", {})
    if not facts or "version" not in document:
        return document
    return {**document, "source": facts}


def facts(report: CheckReport) -> dict[str, Json]:
    """The counts of a report as plain JSON: no rows, no records, warnings without secrets."""
    return {
        "rows": report.rows,
        "ok_rows": report.ok_rows,
        "unreadable": report.unreadable,
        "records": report.records,
        "coverage": report.coverage,
        "ragged": report.ragged,
        "failures": dict(report.failures),
        "paths": [asdict(path) for path in report.paths],
        "content": asdict(report.content),
        "messages": report.messages,
        "dropped": report.dropped,
        "warnings": [redact(warning) for warning in report.warnings],
    }
