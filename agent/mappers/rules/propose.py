"""The proposal: every reading of the source drafted, the best draft that runs chosen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ingot.agent.mappers.proposal import Evidence, Proposal, Request
from ingot.agent.mappers.rules.answers import question_answer_drafts
from ingot.agent.mappers.rules.conversations import conversation_drafts
from ingot.agent.mappers.rules.documents import document_drafts
from ingot.agent.mappers.rules.draft import Draft
from ingot.agent.mappers.rules.language import detect
from ingot.agent.mappers.rules.metadata import find_meta
from ingot.agent.mappers.rules.readings import (
    Reading,
    documents_inside,
    element_readings,
    group_reading,
    hard_wrapped,
    parsed_strings,
    plain,
    shapes,
)
from ingot.agent.mappers.rules.table import View
from ingot.agent.mappers.rules.trees import tree_drafts
from ingot.converters.check import CheckReport, check
from ingot.converters.errors import MappingError, SourceError
from ingot.converters.mapping import bind
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample, draw
from ingot.converters.text_kinds import is_code

LEAST = {"pt": 0.3, "sft": 0.45}
TRIES = 8


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A draft in its reading, as a whole mapping, and what it makes of the sample."""

    draft: Draft
    reading: Reading
    score: float
    document: dict[str, Json]
    report: CheckReport | None = None


def readings(source: Source, sample: Sample) -> Iterator[Reading]:
    """Every way to read the source: its own first, then other roots, each with what follows."""
    single = len(sample.rows) <= 1 and bool(source.roots)
    facts = source.guessed.to_document()
    base = plain(sample, facts, 0.65 if single else 1.0, "the rows as they are")
    for one in (base, *_roots(source, single), *_whole_files(source, sample)):
        yield one
        yield from parsed_strings(one)
        yield from group_reading(one)
        if len(one.sample.rows) > 0:
            yield from element_readings(one)


def _whole_files(source: Source, sample: Sample) -> Iterator[Reading]:
    """Text files as one row each, where their lines are pieces of a running text."""
    formats = {file.facts.format for file in source.files}
    if formats != {"text"} or source.spec.root or not sample.rows:
        return
    lines = [row.value.get("text", "") for row in sample.rows if isinstance(row.value, dict)]
    spec = replace(source.spec, format="text", root="$")
    files = draw(source.with_spec(spec))
    factor = 1.1 if hard_wrapped(lines) else 0.7
    yield plain(
        files,
        {**source.guessed.to_document(), "format": "text", "root": "$"},
        factor,
        "a file is a text",
    )


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
            yield plain(sample, facts, factor, f"{root.path} holds {root.rows} records")


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


def _document(draft: Draft, reading: Reading, meta: dict[str, Json]) -> dict[str, Json]:
    document: dict[str, Json] = {"version": 2}
    paths = [*draft.used, *(value for value in meta.values() if isinstance(value, str))]
    source = _needed(reading.source, paths)
    if source:
        document["source"] = source
    return {**document, **reading.outer, **draft.body, "meta": meta}


def _needed(source: dict[str, Json], paths: Sequence[str]) -> dict[str, Json]:
    """The facts of a reading without the parsed strings that no path looks into."""
    kept = [p for p in source.get("json_fields", ()) if any(_under(path, p) for path in paths)]
    rest = {key: value for key, value in source.items() if key != "json_fields"}
    return {**rest, "json_fields": kept} if kept else rest


def _under(path: str, head: str) -> bool:
    return path.startswith((f"{head}.", f"{head}["))


def _without_meta(draft: Draft, reading: Reading) -> dict[str, Json]:
    return _document(draft, reading, {})


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
        for draft in drafts[:5]:
            document = _without_meta(draft, reading)
            score = min(0.99, draft.score * reading.factor)
            found.append(Candidate(draft=draft, reading=reading, score=score, document=document))
    return sorted(found, key=lambda c: -c.score)


def _run(candidate: Candidate, request: Request) -> Candidate:
    """The candidate with its report; what does not run or makes little loses its score."""
    try:
        mapping = bind(candidate.document, candidate.reading.rows, where="rules")
    except MappingError:
        return replace(candidate, score=0.0)
    sample = candidate.reading.sample
    report = check(mapping, sample, source_name=request.source_name or "sample", show=12)
    if candidate.draft.unknown:
        return replace(candidate, score=candidate.score * _but_speakers(report), report=report)
    made = report.ok_rows / max(1, report.rows)
    kept = report.coverage if report.records else 0.0
    factor = kept * (0.4 + 0.6 * made**0.5)
    if any(f == "filtered" for f in report.failures):
        factor = kept
    return replace(candidate, score=candidate.score * factor, report=report)


def _but_speakers(report: CheckReport) -> float:
    """Share of the records that are made, or will be once a person has named the speakers."""
    waiting = report.failures.get("unmapped_value", 0)
    return (report.records + waiting) / max(1, report.records + sum(report.failures.values()))


def _made_or_asked(candidate: Candidate) -> bool:
    """Whether it makes records, or leaves it to a person to say who speaks."""
    report = candidate.report
    return report is not None and (report.records > 0 or bool(candidate.draft.unknown))


def _choose(found: Sequence[Candidate], mode: str) -> list[Candidate]:
    """The candidates that reach their threshold, the one to take first."""
    good = [c for c in found if c.score >= LEAST[c.draft.kind] and _made_or_asked(c)]
    if mode == "auto":
        open_minded = [replace(c, score=_auto_score(c)) for c in good]
        sure = [c for c in open_minded if c.score >= LEAST[c.draft.kind]]
        return sorted(sure, key=lambda c: -c.score)
    return sorted(good, key=lambda c: -c.score)


def _auto_score(candidate: Candidate) -> float:
    """Where the mode is open: two texts may be a document, and prompts are no text to read on."""
    draft = candidate.draft
    if draft.kind == "pt":
        return candidate.score * (0.85 if draft.explicit else 0.3)
    return candidate.score * (1.0 if draft.explicit else 0.6)


def _texts(report: CheckReport, role: str | None = None) -> list[str]:
    texts: list[str] = []
    for _, record in report.examples:
        messages = record.get("messages", ())
        said = [m["content"] for m in messages if role in (None, m["role"])] or [
            record.get("text", "")
        ]
        texts += [text for text in said if text.strip() and not is_code(text)]
    return texts


def _detected(report: CheckReport) -> tuple[str | None, float]:
    """The language of the texts; none where questions and answers are in different ones."""
    texts = _texts(report)
    if any("messages" in record for _, record in report.examples):
        sides = [detect(_texts(report, role)) for role in ("user", "assistant")]
        known = {code for code, share in sides if code and share >= 0.7}
        if len(known) > 1:
            return None, 0.0
    return detect(texts)


def _language(
    candidate: Candidate, request: Request, meta: dict[str, Json]
) -> tuple[Json, dict[str, Json], float]:
    """The language of the mapping: its column, what was asked for, or what the texts show."""
    if "language" in meta:
        return meta["language"], {}, 1.0
    if request.language:
        return {"literal": request.language}, {}, 1.0
    code, share = _detected(candidate.report) if candidate.report else (None, 0.0)
    if code is None or share < 0.7:
        return None, {}, share
    return {"literal": code}, {"language": code}, share


def _meta(
    candidate: Candidate, request: Request
) -> tuple[dict[str, Json], dict[str, Json], tuple[Evidence, ...]]:
    found, evidence = find_meta(candidate.reading.view, candidate.draft.used)
    group = "group" in candidate.reading.outer
    meta: dict[str, Json] = {}
    if "original_id" in found:
        meta["original_id"] = found["original_id"]
    elif group:
        by = candidate.reading.outer["group"]["by"][0]
        meta["original_id"] = f"[0].{by}"
    elif _keyed(candidate.reading):
        meta["original_id"] = "~"
    language, detected, share = _language(candidate, request, found)
    if language is not None:
        meta["language"] = language
    for key in ("timestamp", "source", "quality_score", "token_count"):
        if key in found:
            meta[key] = found[key]
    if detected:
        why = f"{share:.0%} of the text reads so"
        evidence = (
            *evidence,
            Evidence(
                target="meta.language", choice=detected["language"], why=why, confidence=share
            ),
        )
    return meta, detected, evidence


def _keyed(reading: Reading) -> bool:
    """Whether the rows stand under keys of their own, which then identify them."""
    keys = [row.key for row in reading.sample.rows]
    return (
        bool(keys)
        and all(keys)
        and len(set(keys)) == len(keys)
        and not all(str(k).isdigit() and str(k) == str(n) for n, k in enumerate(keys))
        and "each" not in reading.outer
    )


def _better_described(
    chosen: Candidate, others: Sequence[Candidate], request: Request
) -> Candidate:
    """The same texts read with strings parsed, where that brings more metadata."""
    same = [
        o
        for o in others
        if o.draft.body == chosen.draft.body and o.reading.outer == chosen.reading.outer
    ]
    parsed = [o for o in same if "json_fields" in o.reading.source and o.report]
    ranked = sorted([chosen, *parsed], key=lambda c: -len(_meta(c, request)[0]))
    return replace(ranked[0], score=chosen.score) if ranked[0] is not chosen else chosen


def _proposal(chosen: Candidate, others: Sequence[Candidate], request: Request) -> Proposal:
    chosen = _better_described(chosen, others, request)
    meta, detected, evidence = _meta(chosen, request)
    document = _document(chosen.draft, chosen.reading, meta)
    document = _sound(document, chosen, request)
    runner = next((o for o in others if o.document != chosen.document), None)
    gap = chosen.score - (
        runner.score if runner and runner.draft.kind != chosen.draft.kind else 0.0
    )
    decision = Evidence(
        target="decision",
        choice=chosen.draft.kind,
        why=f"{chosen.draft.why}; {chosen.reading.why}",
        runner_up=f"{runner.draft.kind}: {runner.draft.why}" if runner else None,
        confidence=round(min(chosen.score, chosen.draft.most), 3),
    )
    sure = chosen.score - (0.1 if request.mode == "auto" and gap < 0.1 else 0.0)
    confidence = round(min(0.99, sure, chosen.draft.most), 3)
    return Proposal(
        decision=chosen.draft.kind,
        mapping=document,
        confidence=confidence,
        reason=f"{chosen.draft.why}.",
        evidence=(decision, *chosen.draft.evidence, *evidence),
        mapper="rules",
        detected=detected,
    )


def _sound(document: dict[str, Json], chosen: Candidate, request: Request) -> dict[str, Json]:
    """The document, without meta paths where they make it fail."""
    try:
        bind(document, chosen.reading.rows, where="rules")
    except MappingError:
        return {**document, "meta": {}}
    return document


def _nothing(
    source: Source, sample: Sample, found: Sequence[Candidate], request: Request
) -> Proposal:
    best = found[0] if found else None
    what = {"pt": "running text", "sft": "a conversation with answers"}.get(
        request.mode, "running text or a conversation with answers"
    )
    return Proposal(
        decision="irrelevant",
        mapping=None,
        confidence=round(0.95 - 0.9 * (best.score if best else 0.0), 3),
        reason=f"Nothing in {len(sample.rows)} sampled rows is {what}.",
        evidence=(
            Evidence(
                target="decision",
                choice="irrelevant",
                why=f"the best reading reaches {best.score:.2f}" if best else "no text was found",
                runner_up=f"{best.draft.kind}: {best.draft.why}" if best else None,
                confidence=round(0.95 - 0.9 * (best.score if best else 0.0), 3),
            ),
        ),
        mapper="rules",
    )


def propose(source: Source, sample: Sample, request: Request) -> Proposal:
    """Propose a mapping from rules alone: deterministic, offline.

    Args:
        source: where the rows come from; other readings of it are sampled too.
        sample: rows of the source as it stands.
        request: mode and language that the user asked for.
    """
    modes = ("pt", "sft") if request.mode == "auto" else (request.mode,)
    drafted = candidates(source, sample, modes)
    ran = [_run(c, request) for c in drafted[:TRIES]]
    ran += [c for m in modes for c in _late(drafted[TRIES:], ran, m, request)]
    ran.sort(key=lambda c: -c.score)
    chosen = _choose(ran, request.mode)
    if not chosen:
        return _nothing(source, sample, ran, request)
    return _proposal(chosen[0], [*chosen[1:], *[c for c in ran if c not in chosen]], request)


def _late(
    rest: Sequence[Candidate], ran: Sequence[Candidate], mode: str, request: Request
) -> list[Candidate]:
    """The best of a kind that was crowded out of the first tries."""
    if any(c.draft.kind == mode and c.score >= LEAST[mode] for c in ran):
        return []
    return [_run(c, request) for c in rest if c.draft.kind == mode][:3]
