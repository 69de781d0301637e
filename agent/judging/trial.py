"""Try a mapping document on a sample: open with its facts, bind, run, count."""

from dataclasses import dataclass, fields

from ingot.agent.privacy import redact
from ingot.agent.state import Check, Context, Order
from ingot.converters.mapping.bind import Mapping, bind, parse
from ingot.converters.mapping.check import CheckReport, check_mapping
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.sample import Sample


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
    """Run a document on the sample."""
    spec = spec_of_document(document, where=where)
    source = context.source(order.source, spec)
    sample = context.sample(order.source, spec)
    stated = state_guesses(document, source)
    mapping = bind(stated, [row.value for row in sample.rows], where=where)
    name = order.source_name or source.name
    report = check_mapping(mapping, sample, source_name=name, language=order.language, show=show)
    return Trial(source=source, sample=sample, mapping=mapping, report=report)


def spec_of_document(document: dict[str, Json], *, where: str) -> SourceSpec:
    """The facts about the files that a document states."""
    return SourceSpec.from_document(parse(document, where=where).get("source"))


def state_guesses(document: dict[str, Json], source: Source) -> dict[str, Json]:
    """A version 2 document that states what the reader guessed, so that nobody guesses otherwise.

    Version 1 has no place for it and stays as it is; bound, it becomes version 2.
    """
    facts = source.guessed.to_document() | document.get("source", {})
    if not facts or "version" not in document:
        return document
    return {**document, "source": facts}


def report_facts(report: CheckReport) -> Check:
    """The counts of a report: no rows, no records, warnings without secrets."""
    kept = {
        one.name: getattr(report, one.name) for one in fields(Check) if hasattr(report, one.name)
    }
    return Check(**{**kept, "warnings": tuple(map(redact, report.warnings))})
