"""Try a mapping document on a sample, and compare what two mappings make of it."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from ingot.agent.context import Context
from ingot.agent.privacy import Door
from ingot.agent.proposing.doubts.record_doubts import record_doubts
from ingot.agent.state import Check, Order
from ingot.converters.mapping.bind import Mapping, bind, parse
from ingot.converters.mapping.check import CheckReport, check_mapping, sample_batches
from ingot.converters.mapping.rows.executor import Record, RowExecutor
from ingot.converters.rows import Json, MappingDocument
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
    context: Context, order: Order, document: MappingDocument, *, where: str, show: int = 3
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


def spec_of_document(document: MappingDocument, *, where: str) -> SourceSpec:
    """The facts about the files that a document states."""
    return SourceSpec.from_document(parse(document, where=where).get("source"))


def state_guesses(document: MappingDocument, source: Source) -> MappingDocument:
    """A version 2 document that states what the reader guessed, so that nobody guesses otherwise.

    Version 1 has no place for it and stays as it is; bound, it becomes version 2.
    """
    facts = source.guessed.to_document() | document.get("source", {})
    if not facts or "version" not in document:
        return document
    return {**document, "source": facts}


def report_facts(report: CheckReport, door: Door | None = None) -> Check:
    """The counts of a report: no rows, no records, warnings and other values without secrets."""
    door = door or Door("redacted")
    kept = {
        one.name: getattr(report, one.name) for one in fields(Check) if hasattr(report, one.name)
    }
    told = tuple(map(door.text, (*report.warnings, *report.others)))
    files = tuple((door.text(file), rows, made) for file, rows, made in report.loss.files)
    return Check(**{**kept, "warnings": told, "loss": replace(report.loss, files=files)})


ROWS = 60  # rows that are looked at, with the record made of each
NOTABLE_SHARE = 0.3  # share of records, or of characters, from which on a trace is worth a word
LONG_TEXT = 60  # characters of a text that may well be worth training on
COMPARED_CHARS = 200  # characters by which a text is looked for
MOST_LOOKED_AT = 20_000  # characters of a record
_SHOWN_DOUBTS = ("ends open", "marks")

Example = tuple[Json, Record]


def same_records(one: Trial, other: Trial) -> bool:
    """Whether both make the same texts of the same sample; metadata and masks aside."""
    return _record_hashes(one) == _record_hashes(other)


def _record_hashes(trial: Trial) -> Counter[bytes]:
    unifier = RowExecutor(trial.mapping, source_name="", language=None)
    return Counter(
        hashlib.sha256(json.dumps(_record_texts(record)).encode()).digest()
        for batch in sample_batches(trial.sample, trial.mapping)
        for record in unifier.look(batch).records
    )


def _record_texts(record: Record) -> list[Json]:
    turns = [[message["role"], message["content"]] for message in record.get("messages", ())]
    return [record.get("text"), record.get("system"), turns]


def joint_confidence(one: float, other: float) -> float:
    """How sure two are who came to the same result by different ways."""
    return round(min(0.99, 1 - (1 - one) * (1 - other)), 3)


def find_signals(mapping: Mapping, report: CheckReport) -> tuple[str, ...]:
    """The traces, each as one sentence."""
    examples = report.examples[:ROWS]
    records = [record for _, record in examples]
    if not records:
        return ()
    traces = record_doubts(mapping.kind, records)
    told = [one.seen for one in traces if one.name in _SHOWN_DOUBTS and one.share >= NOTABLE_SHARE]
    split = mapping.group or any(one.each for one in mapping.alternatives())
    return (*told, *_repeated_texts(records), *(() if split else _unused_paths(examples)))


def _repeated_texts(records: Sequence[Record]) -> Iterator[str]:
    """The same long line twice in one text, or the same text from both sides."""
    twice = sum(any(map(_repeats_line, record_texts(record))) for record in records) / len(records)
    if twice >= NOTABLE_SHARE:
        yield f"in {twice:.0%} of the records one text holds the same long line twice"
    both = sum(_is_on_both_sides(record) for record in records) / len(records)
    if both >= NOTABLE_SHARE:
        yield f"in {both:.0%} of the records an answer is the question word for word"


def _repeats_line(text: str) -> bool:
    lines = [line.strip() for line in text[:MOST_LOOKED_AT].split("\n")]
    counts = Counter(line for line in lines if len(line) >= LONG_TEXT)
    return any(count > 1 for count in counts.values())


def _is_on_both_sides(record: Record) -> bool:
    said: dict[str, set[str]] = {"user": set(), "assistant": set()}
    for message in record.get("messages", ()):
        said.setdefault(message["role"], set()).add(message["content"].strip())
    return bool(said["user"] & said["assistant"])


def _unused_paths(examples: Sequence[Example]) -> Iterator[str]:
    """Paths whose long texts stand in no record, with their share of the rows' long texts."""
    left: Counter[str] = Counter()
    total = 0
    for row, record in examples:
        whole = "\n".join(record_texts(record))
        for path, text in _long_texts(row, ""):
            total += len(text)
            if text.strip()[:COMPARED_CHARS] not in whole:
                left[path] += len(text)
    for path, chars in left.most_common(3):
        if (share := chars / total) >= NOTABLE_SHARE:
            yield f"{path} holds {share:.0%} of the characters of long texts and is not used"


def record_texts(record: Record) -> list[str]:
    """Every text of a unified record."""
    said = [message["content"] for message in record.get("messages", ())]
    return [*said, *(record[key] for key in ("text", "system") if record.get(key))]


def _long_texts(value: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if len(value) >= LONG_TEXT and " " in value.strip():
            yield path or "$", value
    elif isinstance(value, list):
        for one in value:
            yield from _long_texts(one, f"{path}[*]")
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _long_texts(one, f"{path}.{key[:60]}" if path else key[:60])
