"""Every reading of the source drafted: whole mappings that may be tried, best first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ingot.agent.mappers.rules.answers import question_answer_drafts
from ingot.agent.mappers.rules.conversations import conversation_drafts
from ingot.agent.mappers.rules.documents import document_drafts
from ingot.agent.mappers.rules.draft import Draft
from ingot.agent.mappers.rules.groups import group_reading, single_turns
from ingot.agent.mappers.rules.readings import (
    Reading,
    documents_inside,
    element_readings,
    parsed_strings,
    plain,
    shapes,
)
from ingot.agent.mappers.rules.table import View, lies_in
from ingot.agent.mappers.rules.trees import tree_drafts
from ingot.agent.mappers.rules.wholefiles import text_readings
from ingot.converters.check import CheckReport
from ingot.converters.errors import SourceError
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample, draw


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A draft in its reading, as a whole mapping, and what it makes of the sample."""

    draft: Draft
    reading: Reading
    score: float
    document: dict[str, Json]
    report: CheckReport | None = None


_TABLE = 10  # rows


def readings(source: Source, sample: Sample) -> Iterator[Reading]:
    """Every way to read the source: its own first, then other roots, each with what follows."""
    single = len(sample.rows) <= 1 and bool(source.roots)
    facts = source.guessed.to_document()
    roots = list(_roots(source, single))
    tables = not single and any(map(_is_table, roots))
    unlikely = 0.65 if single or tables else 1.0
    base = plain(sample, facts, unlikely, "the rows as they are")
    base, texts = text_readings(source, sample, base)
    others = (*roots, *texts, *_file_talks(source, base))
    for one in (base, *others):
        yield one
        yield from parsed_strings(one)
        yield from group_reading(one)
        if len(one.sample.rows) > 0:
            yield from element_readings(one)


def _file_talks(source: Source, base: Reading) -> Iterator[Reading]:
    """Files as one row each, where every file is the list of the messages of one conversation."""
    layouts = {(file.facts.format, file.facts.layout) for file in source.files}
    if layouts != {("json", "list")} or len(source.files) < 2 or source.spec.root:
        return
    if not single_turns(base.view):
        return
    files = draw(source.with_spec(replace(source.spec, root="$")))
    facts = {**source.guessed.to_document(), "root": "$"}
    yield plain(files, facts, 1.0, "a file is a conversation")


def _roots(source: Source, single: bool) -> Iterator[Reading]:
    others = [root for root in source.roots if root.path not in (source.spec.root, "$")]
    for place, root in enumerate(others[:4]):
        other = source.with_spec(replace(source.spec, root=root.path))
        try:
            sample = draw(other)
        except SourceError:
            continue
        if sample.rows:
            facts = {**other.guessed.to_document(), "root": root.path}
            factor = (1.0 if single else 0.85) - 0.02 * place
            read = plain(sample, facts, factor, f"{root.path} holds {root.rows} records")
            yield replace(read, factor=1.0) if not single and _is_table(read) else read


def _is_table(read: Reading) -> bool:
    """Whether what lies in each of several files is a table: rows that are whole by themselves.

    Messages of one conversation and paragraphs of one text are not: there the file is the row.
    """
    texts = [one for one in read.view.texts if not one.many and one.fill > 0.5]
    return len(read.sample.rows) >= _TABLE and len(texts) >= 2 and not single_turns(read.view)


def drafts_of(view: View, modes: Sequence[str]) -> list[Draft]:
    """The drafts of one view for the modes that are open, best first."""
    found: list[Draft] = []
    if "sft" in modes:
        found += conversation_drafts(view)
        found += question_answer_drafts(view)
        found += tree_drafts(view)
    if "pt" in modes:
        found += document_drafts(view)
    return sorted(found, key=lambda d: -d.score)


def _mixed(reading: Reading, modes: Sequence[str]) -> Iterator[Draft]:
    """One alternative per kind of row, where a file mixes several."""
    parts = shapes(reading.rows) if not reading.outer else []
    best: list[Draft] = []
    for part in parts:
        found = drafts_of(View.of(part), modes)
        if not found or found[0].score < 0.6:
            return
        best.append(found[0])
    if not best or len({d.kind for d in best}) > 1:
        return
    bodies = list({repr(d.body): d.body for d in best}.values())
    if len(bodies) > 1:
        yield Draft(
            kind=best[0].kind,
            body={"any_of": bodies},
            score=min(d.score for d in best),
            why=f"{len(bodies)} kinds of rows: " + "; ".join(d.why for d in best),
            pair=any(d.pair for d in best),
            used=frozenset().union(*(d.used for d in best)),
            evidence=tuple(e for d in best for e in d.evidence),
            most=min(d.most for d in best),
            unknown=frozenset().union(*(d.unknown for d in best)),
        )


def document_of(draft: Draft, reading: Reading, meta: dict[str, Json]) -> dict[str, Json]:
    """The mapping document of a draft in its reading, facts about the files included."""
    document: dict[str, Json] = {"version": 2}
    paths = [*draft.used, *_strings(draft.body), *_strings(meta)]
    source = _needed(reading.source, paths)
    if source:
        document["source"] = source
    return {**document, **reading.outer, **draft.body, "meta": meta}


def _strings(value: Json) -> Iterator[str]:
    """Every text of a part of a mapping, its paths among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from _strings(inside)


def _needed(source: dict[str, Json], paths: Sequence[str]) -> dict[str, Json]:
    """The facts of a reading without the parsed strings that no path looks into."""
    kept = [p for p in source.get("json_fields", ()) if any(lies_in(path, p) for path in paths)]
    rest = {key: value for key, value in source.items() if key != "json_fields"}
    return {**rest, "json_fields": kept} if kept else rest


def candidates(source: Source, sample: Sample, modes: Sequence[str]) -> list[Candidate]:
    """Drafts of every reading as mappings, best first, not yet run."""
    found: list[Candidate] = []
    for reading in readings(source, sample):
        drafts = drafts_of(reading.view, modes)
        drafts = sorted([*_mixed(reading, modes), *drafts], key=lambda d: -d.score)
        if "each" in reading.outer:
            lift = 1.2 if documents_inside(reading.view) and len(reading.sample.rows) <= 40 else 1.0
            drafts = [
                d.times(lift) if d.kind == "pt" else d for d in drafts if d.kind == "pt" or d.pair
            ]
        if "group" in reading.outer:
            drafts = [d for d in drafts if d.kind == "sft" and not d.pair]
        for best in drafts[:5]:
            draft = replace(best, most=min(best.most, reading.most))
            document = document_of(draft, reading, {})
            score = min(0.99, draft.score * reading.factor)
            found.append(Candidate(draft=draft, reading=reading, score=score, document=document))
    return sorted(found, key=lambda c: (-c.score, -len(c.draft.body)))
