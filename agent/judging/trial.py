"""Try a mapping document on a sample, and compare what two mappings make of it."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from ingot.agent.context import Context
from ingot.agent.privacy import DIFFERS, NOT_SHOWN, Door
from ingot.agent.proposing.columns import parse_json_text
from ingot.agent.proposing.doubts.confidence import record_doubts
from ingot.agent.proposing.names import NAMED, name_strength
from ingot.agent.state import Check, Order
from ingot.converters.errors import Problem
from ingot.converters.json_yaml import shorten_text
from ingot.converters.mapping.bind import Mapping, bind, parse
from ingot.converters.mapping.check import CheckReport, check_mapping, sample_batches
from ingot.converters.mapping.rows.executor import Record, RowExecutor
from ingot.converters.mapping.rows.values import row_nodes
from ingot.converters.paths import quote_name
from ingot.converters.rows import Json, MappingDocument, limit_looks
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
    name = order.source_name or source.name
    with limit_looks():
        mapping = bind(stated, [row.value for row in sample.rows], where=where)
        report = check_mapping(
            mapping, sample, source_name=name, language=order.language, show=show
        )
    return Trial(source=source, sample=sample, mapping=mapping, report=report)


def spec_of_document(document: MappingDocument, *, where: str) -> SourceSpec:
    """Return the facts about the files that a document states."""
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
    """Return the counts of a report; it holds no rows or records, and no secrets."""
    door = door or Door("redacted")
    kept = {
        one.name: getattr(report, one.name) for one in fields(Check) if hasattr(report, one.name)
    }
    warnings = tuple(map(door.text, (*report.warnings, *report.others)))
    files = tuple((door.text(file), rows, made) for file, rows, made in report.loss.files)
    return Check(**{**kept, "warnings": warnings, "loss": replace(report.loss, files=files)})


# Problems that quote what stands in the data, or what a mapping makes of it.
_QUOTING = ("unresolved_path", "unmapped_value", "not_text", "ambiguous_lookup", "too_deep")


def shown_report(
    context: Context, order: Order, trial: Trial, *, show: int = 3, share: str = "redacted"
) -> CheckReport:
    """The report of a trial as it may be shown: rows, records and quoted values are redacted ones.

    Whoever writes a mapping spells values as they like, so what is shown is what the mapping makes
    of redacted rows. Where that is not as much as of the real ones no record is shown, and of files
    that it reads in its own way no row.
    """
    real, sample = trial.report, context.shown_sample(order, trial.source.spec, share)
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
        instead: list[Example] = [(row, {"text": placeholder, "meta": {}}) for row in rows]
        shown = replace(shown, examples=tuple(instead) if real.examples else (), rejects=())
    known = {(one.pointer, one.code): one for one in shown.problems}
    return replace(
        real,
        examples=shown.examples,
        rejects=shown.rejects,
        others=shown.others,
        problems=tuple(_shown_problem(one, known) for one in real.problems),
    )


def _outcome(report: CheckReport) -> Json:
    """What becomes of the sampled rows, in counts that are shown of the real ones."""
    return [report.rows, report.ok_rows, report.records, report.failures]


def _shown_problem(one: Problem, said: dict[tuple[str, str], Problem]) -> Problem:
    """A problem of the real rows, with what is quoted of the redacted ones."""
    if one.code not in _QUOTING:
        return one
    own = one.got if one.code == "unresolved_path" else "(not shown)"  # a path of the mapping
    hidden = replace(one, got=own, nearest=None, values=())
    return said.get((one.pointer, one.code), hidden)


ROWS = 60  # rows that are looked at, with the record made of each
NOTABLE_SHARE = 0.3  # share of records, or of characters, from which on a trace is worth a word
LONG_TEXT = 60  # characters of a text that may well be worth training on
COMPARED_CHARS = 200  # characters by which a text is looked for
MOST_LOOKED_AT = 20_000  # characters of a record
_LONGEST_PATH = 160  # characters of one that is told
_SHOWN_DOUBTS = ("ends open", "marks")

Example = tuple[Json, Record]


def record_hashes(trial: Trial) -> Counter[bytes]:
    """Return the hashes of the texts that a mapping makes of the sample.

    Metadata and masks aside.
    """
    unifier = RowExecutor(trial.mapping, source_name="", language=None)
    return Counter(
        hashlib.sha256(json.dumps(_record_texts(record)).encode()).digest()
        for batch in sample_batches(trial.sample, trial.mapping)
        for record in unifier.look(batch).records
    )


def _record_texts(record: Record) -> list[Json]:
    turns = [[message["role"], message["content"]] for message in record.get("messages", ())]
    return [record.get("text"), record.get("system"), turns]


def find_signals(mapping: Mapping, report: CheckReport) -> tuple[str, ...]:
    """Return the traces, each as one sentence."""
    examples = report.examples[:ROWS]
    records = [record for _, record in examples]
    if not records:
        return ()
    traces = record_doubts(mapping.kind, records)
    doubts = [
        one.seen for one in traces if one.name in _SHOWN_DOUBTS and one.share >= NOTABLE_SHARE
    ]
    split = mapping.group or any(one.each for one in mapping.alternatives())
    return (*doubts, *_repeated_texts(records), *(() if split else _unused_paths(examples)))


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
        for path, text in texts_inside(row):
            if len(text) < LONG_TEXT or " " not in text.strip():
                continue
            total += len(text)
            if text.strip()[:COMPARED_CHARS] not in whole:
                left[path or "$"] += len(text)
    for path, chars in left.most_common(3):
        if (share := chars / total) >= NOTABLE_SHARE:
            shown = shorten_text(path, _LONGEST_PATH, "...")
            yield f"{shown} holds {share:.0%} of the characters of long texts and is not used"


def record_texts(record: Record) -> list[str]:
    """Return every text of a unified record."""
    texts = [message["content"] for message in record.get("messages", ())]
    return [*texts, *(record[key] for key in ("text", "system") if record.get(key))]


def texts_inside(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text anywhere in a value, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for one in value:
            yield from texts_inside(one, f"{path}[*]")
    elif isinstance(value, dict):
        for key, one in value.items():
            step = quote_name(key)
            dot = "." if path and step[0] != "[" else ""
            yield from texts_inside(one, f"{path}{dot}{step}")


# --- which of the texts of the sampled rows the records of a mapping hold


WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_FIRST_ROWS = 100  # that are looked at, or groups of rows
_FEWEST = 3  # words of a text; texts of a path
_LOOK = 400  # characters by which a text is told from a name
_KEY = 300  # characters of the words by which a text is looked for
_LONG = 60  # characters of the words of a text that does not stand twice in a text by chance
_WHOLE, _HALF, _NONE = 0.9, 0.5, 0.1  # shares of the texts of a path
_SLOTS = ("question", "instruction", "answer", "body", "utterance")
_LOST = 0.85  # a path of which less is taken is not taken whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """A text of the rows: where it stands, how often one record holds it (None: no record)."""

    row: int
    path: str
    words: str
    held: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The texts of the rows; those of groups have no row of their own."""

    leaves: dict[tuple[int, int], Leaf]
    grouped: bool

    @classmethod
    def of(cls, trial: Trial) -> "Taken":
        """Run a mapping on the first rows of its sample, and look for their texts."""
        grouped = bool(trial.mapping.group)
        leaves = {}
        for row, (value, records) in enumerate(_first_rows(trial)):
            texts = [words_of("\n".join(record_texts(record))) for record in records]
            for place, (path, text) in enumerate(_prose_texts(value)):
                key = words_of(text)[:_KEY]
                most = max((one.count(key) for one in texts), default=0)
                held = min(most, 1 + (len(key) >= _LONG)) if records else None
                name = path.removeprefix("[*]").removeprefix(".") if grouped else path
                leaves[row, place] = Leaf(row=row, path=name, words=key, held=held)
        return cls(leaves=leaves, grouped=grouped)

    def rows(self) -> set[int]:
        """Return the rows that give a record."""
        return {leaf.row for leaf in self.leaves.values() if leaf.held is not None}

    def share(self, path: str, rows: set[int]) -> float | None:
        """Return the share of the texts at a path that the records hold; None of too few."""
        found = [leaf.held for leaf in self.leaves.values() if leaf.path == path]
        if not self.grouped:
            inside = (leaf for leaf in self.leaves.values() if leaf.row in rows)
            found = [leaf.held for leaf in inside if leaf.path == path]
        return sum(map(bool, found)) / len(found) if len(found) >= _FEWEST else None

    def paths(self) -> list[str]:
        """Return every path that has a text."""
        return list(dict.fromkeys(leaf.path for leaf in self.leaves.values()))


def _first_rows(trial: Trial) -> Iterator[tuple[Json, Sequence[dict[str, Json]]]]:
    executor = RowExecutor(trial.mapping, source_name="", language=None)
    nodes = (
        node for batch in sample_batches(trial.sample, trial.mapping) for node in row_nodes(batch)
    )
    for _, node in zip(range(_FIRST_ROWS), nodes, strict=False):
        yield node.value, executor.row(node)[0]


def _prose_texts(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """The texts of several words anywhere in a row, also in JSON inside a text."""
    for place, text in texts_inside(value, path):
        inside = parse_json_text(text) if text[:1] in ("[", "{") else None
        if inside is not None:
            yield from _prose_texts(inside, place)
        elif is_prose(text):
            yield place, text


def is_prose(text: str) -> bool:
    """Return whether a text has some words: more than a name, a number or a key."""
    head = text[:_LOOK]
    dense = sum(len(word) == 1 and word > "\u3000" for word in WORDS.findall(head))
    return len(head.split()) >= _FEWEST or dense >= _FEWEST


def words_of(text: str) -> str:
    """Return the words of a text, by which it is found whatever stands between them."""
    return " ".join(WORDS.findall(text.casefold()))


def texts_left_out(model: Taken, rules: Taken | None) -> Iterator[str]:
    """Yield paths of which a model takes less than the rules, or nothing of what is named so."""
    grouped = model.grouped or bool(rules and rules.grouped)
    rows = model.rows() if rules is None or grouped else model.rows() & rules.rows()
    for path in model.paths():
        taken = model.share(path, rows)
        whole = (rules.share(path, rows) if rules else None) or 0.0
        if taken is None:
            continue
        lost = taken < min(_LOST, whole - _NONE)
        if lost and whole >= _HALF and (taken >= _NONE or (whole >= _WHOLE and _is_named(path))):
            yield f"{path}: {taken:.0%} of its texts are taken, {whole:.0%} by the rules"


def _is_named(path: str) -> bool:
    name = path.replace("[*]", "").rsplit(".", 1)[-1]
    return any(name_strength(name, slot) >= NAMED for slot in _SLOTS)


def other_texts(model: Taken, rules: Taken | None) -> Iterator[str]:
    """Yield paths of which the rules take some texts, and the model others."""
    if rules is None or model.grouped or rules.grouped:
        return
    for path in model.paths():
        places = [at for at, leaf in model.leaves.items() if leaf.path == path]
        one, other = (
            {at for at in places if at in taken.leaves and taken.leaves[at].held}
            for taken in (model, rules)
        )
        fewest = min(len(one), len(other))
        part = max(len(one), len(other)) < _WHOLE * len(places) and fewest >= _NONE * len(places)
        if len(places) >= _FEWEST and part and 2 * len(one & other) < fewest:
            yield f"other texts of {path} than those that the rules take"


def texts_taken_twice(model: Taken, rules: Taken | None) -> Iterator[str]:
    """Long texts that stand twice in their record, where those of the rules do not."""
    counts = [
        sum((leaf.held or 0) > 1 for leaf in taken.leaves.values()) if taken else 0
        for taken in (model, rules)
    ]
    if counts[0] > counts[1] and counts[0] >= max(_FEWEST, len(model.rows()) / 3):
        yield f"{counts[0]} texts stand twice in their record"


def rows_without_record(model: Taken, rules: Taken | None) -> int:
    """Return how many rows only the rules make a record of.

    None if they are a tenth or fewer.
    """
    if rules is None or model.grouped or rules.grouped:
        return 0
    lost = len(rules.rows() - model.rows())
    return lost if lost > _NONE * len(rules.rows()) else 0
