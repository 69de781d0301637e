"""The proposal: every reading of the source drafted, the best draft that runs chosen."""

from collections.abc import Sequence
from dataclasses import replace

from ingot.agent.ctr_data import hint_at_log
from ingot.agent.mappers.proposal import Evidence, Proposal, Request
from ingot.agent.mappers.rules.candidates import Candidate, candidates, document_of
from ingot.agent.mappers.rules.doubts import Trace, elsewhere, traces
from ingot.agent.mappers.rules.language import SURE, detect, differ
from ingot.agent.mappers.rules.metadata import find_meta
from ingot.agent.mappers.rules.openmode import fitness
from ingot.agent.mappers.rules.readings import Reading
from ingot.agent.mappers.rules.reasons import in_order, reasons
from ingot.agent.mappers.rules.sureness import sureness, sureness_of_nothing
from ingot.converters.check import CheckReport, check
from ingot.converters.errors import MappingError
from ingot.converters.mapping import bind
from ingot.converters.profile import spread
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample
from ingot.converters.text_kinds import is_code
from ingot.converters.unify import Record

LEAST = {"pt": 0.3, "sft": 0.45}
TRIES = 8
SHOWN_DOUBT = 0.05
EXAMPLES = 40  # records that language and doubts are judged by


def _run(candidate: Candidate, request: Request) -> Candidate:
    """The candidate with its report; what does not run or makes little loses its score."""
    try:
        mapping = bind(candidate.document, candidate.reading.rows, where="rules")
    except MappingError:
        return replace(candidate, score=0.0)
    sample = candidate.reading.sample
    report = check(
        mapping, sample, source_name=request.source_name or "sample", show=len(sample.rows)
    )
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


def _choose(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that reach their threshold, in their order."""
    return [c for c in found if c.score >= LEAST[c.draft.kind] and _made_or_asked(c)]


def _in_open_mode(candidate: Candidate) -> Candidate:
    return replace(
        candidate, score=candidate.score * fitness(candidate.draft, _examples(candidate))
    )


def _examples(candidate: Candidate) -> list[Record]:
    """Some of the records that a candidate makes, spread over the sample."""
    records = [r for _, r in candidate.report.examples] if candidate.report else []
    return list(spread(records, EXAMPLES))


def _texts(records: Sequence[Record], roles: Sequence[str] = ("user", "assistant")) -> list[str]:
    texts: list[str] = []
    for record in records:
        said = [m["content"] for m in record.get("messages", ()) if m["role"] in roles]
        texts += [t for t in said or [record.get("text", "")] if t.strip() and not is_code(t)]
    return texts


def _detected(records: Sequence[Record]) -> tuple[str | None, float]:
    """The language of the texts; none where questions and answers are in different ones."""
    talks = any("messages" in record for record in records)
    if talks and differ([_texts(records, [role]) for role in ("user", "assistant")]):
        return None, 0.0
    return detect(_texts(records))


def _language(
    candidate: Candidate, request: Request, meta: dict[str, Json]
) -> tuple[Json, dict[str, Json], float]:
    """The language of the mapping: its column, what was asked for, or what the texts show."""
    if "language" in meta:
        return meta["language"], {}, 1.0
    if request.language:
        return {"literal": request.language}, {}, 1.0
    code, share = _detected(_examples(candidate))
    if code is None or share < SURE:
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


def _proposal(
    chosen: Candidate, others: Sequence[Candidate], request: Request, source: Source
) -> Proposal:
    chosen = _better_described(chosen, others, request)
    meta, detected, evidence = _meta(chosen, request)
    document = document_of(chosen.draft, chosen.reading, meta)
    document = _sound(document, chosen, request)
    runner = next((o for o in others if o.document != chosen.document), None)
    doubts = _doubts(chosen, others, request, source)
    confidence = sureness(chosen.draft, chosen.score, doubts)
    decision = Evidence(
        target="decision",
        choice=chosen.draft.kind,
        why=f"{chosen.draft.why}; {chosen.reading.why}",
        runner_up=f"{runner.draft.kind}: {runner.draft.why}" if runner else None,
        confidence=confidence,
    )
    against = [
        Evidence(
            target="doubt", choice=doubt.name, why=doubt.seen, confidence=round(doubt.share, 2)
        )
        for doubt in doubts
        if doubt.share >= SHOWN_DOUBT
    ]
    given = (*chosen.draft.evidence, *evidence)
    more = reasons(document, chosen.reading.view, given, source.guessed.to_document())
    return Proposal(
        decision=chosen.draft.kind,
        mapping=document,
        confidence=confidence,
        reason=f"{chosen.draft.why}.",
        evidence=(decision, *against, *in_order([*given, *more])),
        mapper="rules",
        detected=detected,
    )


def _doubts(
    chosen: Candidate, others: Sequence[Candidate], request: Request, source: Source
) -> list[Trace]:
    """What speaks against the chosen candidate, other readings of the rows among it."""
    report = chosen.report
    made = report.ok_rows / max(1, report.rows) if report else 1.0
    found = traces(chosen.reading.view, chosen.draft, _examples(chosen), source, made)
    rivals = [o for o in others if _is_rival(o, chosen, request)]
    if rivals and (near := (rivals[0].score / chosen.score - 0.8) / 0.2) > 0:
        share = min(1.0, near)
        found.append(Trace("rival", share, f"nearly as well fits: {rivals[0].draft.why}"))
    if not chosen.draft.explicit:
        found.append(Trace("unnamed", 1.0, "no name says so, only the values"))
    return found


def _is_rival(other: Candidate, chosen: Candidate, request: Request) -> bool:
    """Whether another candidate makes other records of the rows, in a mode that is open."""
    if other.draft.kind != chosen.draft.kind:
        return request.mode == "auto"
    whole = chosen.draft.body
    return other.draft.body != whole and other.draft.body not in whole.get("any_of", ())


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
    score = best.score if best else 0.0
    rows = [row.value for row in sample.rows]
    confidence = sureness_of_nothing(rows, request.mode, score, elsewhere(source).share)
    hint = hint_at_log(source, rows)
    return Proposal(
        decision="irrelevant",
        mapping=None,
        confidence=confidence,
        reason=f"Nothing in {len(rows)} sampled rows is {what}.{hint}",
        evidence=(
            Evidence(
                target="decision",
                choice="irrelevant",
                why=f"the best reading reaches {score:.2f}"
                if best
                else "no reading of the rows fits",
                runner_up=f"{best.draft.kind}: {best.draft.why}" if best else None,
                confidence=confidence,
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
    if request.mode == "auto":
        ran = [_in_open_mode(c) for c in ran]
    ran.sort(key=lambda c: -c.score)
    chosen = _choose(ran)
    if not chosen:
        return _nothing(source, sample, ran, request)
    others = [*chosen[1:], *[c for c in ran if c not in chosen]]
    return _proposal(chosen[0], others, request, source)


def _late(
    rest: Sequence[Candidate], ran: Sequence[Candidate], mode: str, request: Request
) -> list[Candidate]:
    """The best of a kind that was crowded out of the first tries."""
    if any(c.draft.kind == mode and c.score >= LEAST[mode] for c in ran):
        return []
    return [_run(c, request) for c in rest if c.draft.kind == mode][:3]
