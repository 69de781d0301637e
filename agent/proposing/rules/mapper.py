"""Propose a mapping by deterministic rules: run the best candidates, choose one."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ingot.agent.proposing.columns import is_path_inside
from ingot.agent.proposing.doubts.confidence import (
    asking_share,
    draft_confidence,
    find_doubts,
    lost_row_doubt,
    masked_share,
    nothing_confidence,
    open_mode_factor,
    order_evidence,
    other_files_share,
    path_evidence,
    prose_share,
    row_count_doubt,
    score_doubt,
    strongest_first,
)
from ingot.agent.proposing.doubts.turn_doubts import Doubt, conversation_doubt, message_lists
from ingot.agent.proposing.doubts.unconverted import MOST_SURE, unconverted_reason
from ingot.agent.proposing.plain_text import document_draft
from ingot.agent.proposing.proposal import (
    Evidence,
    Proposal,
    Request,
    confidence_text,
)
from ingot.agent.proposing.readings import Reading, seen_from_element
from ingot.agent.proposing.recsys_data import click_log_hint
from ingot.agent.proposing.rules.candidates import Candidate, candidate_document, find_candidates
from ingot.agent.proposing.rules.known_layouts import drop_absent_parts, propose_known
from ingot.agent.proposing.rules.markup_texts import take_shown_texts
from ingot.agent.proposing.rules.metadata import find_meta, mapping_language
from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.mapping.check import SampleRun, run_sample
from ingot.converters.mapping.language import Mapping, RoleFromData, RoleSplit
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.mapping.walk import select_messages
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.profile import pick_evenly
from ingot.converters.sources.sample import Sample

__all__ = ["propose"]


LEAST_SCORE = {"pt": 0.3, "sft": 0.45}
MOST_TRIES = 8
_OTHER_TRIES, _OTHER_SCORE = 2, 0.75  # of the mode that was not asked for
MOST_MASKED = 0.4  # of what is said, where the texts were left out on purpose
SHOWN_DOUBT, SHOWN_SCORE = 0.05, 0.6
_OTHER_KINDS = {"pt": "running text", "sft": "conversations"}
_OF_TURNS = 0.75  # of the score of documents that are the turns of conversations
_NAMELESS = 0.7  # of the doubt whether rows are documents, where no name says so
EXAMPLES = 40  # records that language and doubts are judged by


def _run_candidate(candidate: Candidate, request: Request) -> Candidate:
    """The candidate with its report; what does not run or makes little loses its score."""
    try:
        mapping = bind(candidate.document, candidate.reading.rows, where="rules")
        run = _run_mapping(mapping, candidate.reading, request)
    except MappingError:
        return replace(candidate, score=0.0)
    if masked_share([record for _, record in run.examples]) > MOST_MASKED:
        return replace(candidate, score=0.0, run=run)
    if candidate.draft.unknown:
        return replace(candidate, score=candidate.score * _record_share(run), run=run)
    coverage = run.coverage if run.records else 0.0
    factor = (
        coverage if "filtered" in run.failures else coverage * (0.4 + 0.6 * _made_share(run) ** 0.5)
    )
    return replace(candidate, score=candidate.score * factor, run=run)


def _run_mapping(mapping: Mapping, reading: Reading, request: Request) -> SampleRun:
    """Run a mapping on the sample of a reading."""
    return run_sample(mapping, reading.sample, source_name=request.source_name or "sample")


def _made_share(run: SampleRun) -> float:
    """Share of the rows that give a record."""
    return len(run.examples) / max(1, run.rows)


def _record_share(run: SampleRun) -> float:
    """Share of the records that are made, or will be once a person has named the speakers."""
    records, waiting = len(run.records), run.failures["unmapped_value"]
    return (records + waiting) / max(1, records + run.failures.total())


def _score_open_mode(candidate: Candidate) -> Candidate:
    factor = open_mode_factor(candidate.draft, _example_records(candidate))
    return replace(candidate, score=candidate.score * factor)


def _prefer_turns(ran: Sequence[Candidate]) -> list[Candidate]:
    """Lower the score of texts that are the turns which a conversation among the others takes.

    Conversations that nobody has answered yet give no record; that makes them no documents.
    """
    talks = {
        element
        for candidate in ran
        if candidate.draft.kind == "sft"
        and candidate.draft.explicit
        and candidate.score >= LEAST_SCORE["sft"]
        and _reads_speakers(candidate.draft.tree)
        for element in message_lists(candidate.draft.tree)
    }
    return [
        replace(candidate, score=candidate.score * _OF_TURNS)
        if candidate.draft.kind == "pt" and talks and _takes_turns(candidate, talks)
        else candidate
        for candidate in ran
    ]


def _reads_speakers(mapping: Mapping) -> bool:
    """Whether the data say who speaks."""
    roles = [message.role for message in select_messages(mapping)]
    return any(isinstance(role, RoleFromData | RoleSplit) for role in roles)


def _takes_turns(candidate: Candidate, talks: set[str]) -> bool:
    """Whether running text is one of the turns, or all of them joined."""
    inside = any(is_path_inside(path, talk) for path in candidate.draft.used for talk in talks)
    return inside or candidate.document.get("each") in talks


def _example_records(candidate: Candidate) -> list[Record]:
    """Some of the records that a candidate makes, spread over the sample."""
    records = [r for _, r in candidate.run.examples] if candidate.run else []
    return list(pick_evenly(records, EXAMPLES))


def _find_metadata(
    candidate: Candidate, request: Request, source: Source
) -> tuple[dict[str, Json], dict[str, Json], tuple[Evidence, ...]]:
    meta_columns, evidence = find_meta(candidate.reading.view, candidate.draft.used)
    if document_draft(source):  # other ids are those of front matter, which few files may have
        meta_columns["original_id"] = "path"
        evidence = tuple(item for item in evidence if item.target != "meta.original_id")
    group = "group" in candidate.reading.outer
    if "each" in candidate.draft.body:
        meta_columns = {key: seen_from_element(value) for key, value in meta_columns.items()}
    meta: dict[str, Json] = {}
    if "original_id" in meta_columns:
        meta["original_id"] = meta_columns["original_id"]
    elif group:
        by = candidate.reading.outer["group"]["by"][0]
        meta["original_id"] = f"[0].{by}"
    elif "each" not in candidate.document and _has_row_keys(candidate.reading):
        meta["original_id"] = "~"
    language, detected, share = mapping_language(
        _example_records(candidate), request.language, meta_columns
    )
    if language is not None:
        meta["language"] = language
    for key in ("timestamp", "source", "quality_score", "token_count"):
        if key in meta_columns:
            meta[key] = meta_columns[key]
    if detected:
        why, code = f"{share:.0%} of the text reads so", detected["language"]
        read = Evidence(target="meta.language", choice=code, why=why, confidence=share)
        evidence = (*evidence, read)
    return meta, detected, evidence


def _has_row_keys(reading: Reading) -> bool:
    """Whether the rows stand under keys of their own, which then identify them."""
    keys = [row.key for row in reading.sample.rows]
    counted = all(str(key) == str(number) for number, key in enumerate(keys))
    distinct = bool(keys) and all(keys) and len(set(keys)) == len(keys)
    return distinct and not counted


def _prefer_metadata(
    chosen: Candidate, rivals: Sequence[Candidate], request: Request, source: Source
) -> Candidate:
    """The same texts read with strings parsed, where that brings more metadata."""
    same = [
        o
        for o in rivals
        if o.draft.body == chosen.draft.body and o.reading.outer == chosen.reading.outer
    ]
    parsed = [o for o in same if "json_fields" in o.reading.source and o.run]
    if not parsed:
        return chosen
    ranked = sorted([chosen, *parsed], key=lambda c: -len(_find_metadata(c, request, source)[0]))
    return replace(ranked[0], score=chosen.score) if ranked[0] is not chosen else chosen


def _make_proposal(
    chosen: Candidate, rivals: Sequence[Candidate], request: Request, source: Source
) -> tuple[Proposal, dict[str, float]]:
    chosen = _prefer_metadata(chosen, rivals, request, source)
    meta, detected, meta_evidence = _find_metadata(chosen, request, source)
    plain = read_tree(candidate_document(chosen.draft, chosen.reading, meta))
    with suppress(MappingError):  # nothing would be left: the check says what is wrong
        plain, _ = drop_absent_parts(plain, chosen.reading.sample)
    mapping, markup = take_shown_texts(plain, chosen.reading.view)
    if mapping is not plain:
        chosen = replace(chosen, run=_run_mapping(mapping, chosen.reading, request))
    meta_targets = {f"meta.{key}" for key in mapping.outer.meta}
    evidence = [
        e for e in meta_evidence if e.target in meta_targets or not e.target.startswith("meta.")
    ]
    runner = next((o for o in rivals if o.document != chosen.document), None)
    doubts = _list_doubts(chosen, rivals, request, source)
    confidence = draft_confidence(chosen.draft, doubts)
    strongest = strongest_first(doubts)
    if confidence == chosen.draft.most:
        most = f"rules claim at most {confidence_text(confidence)} of rows with several readings"
        strongest.insert(0, Doubt("limit", 1.0, most))
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
        for doubt in strongest
        if doubt.share >= (SHOWN_SCORE if doubt.name == "score" else SHOWN_DOUBT)
    ]
    all_evidence = (*chosen.draft.evidence, *evidence, *markup)
    guessed = source.guessed.to_document()
    more = path_evidence(mapping, chosen.reading.view, all_evidence, guessed)
    proposal = Proposal(
        decision=chosen.draft.kind,
        mapping=mapping,
        confidence=confidence,
        reason=f"{chosen.draft.why}.",
        evidence=(decision, *against, *order_evidence([*all_evidence, *more])),
        mapper="rules",
        detected=detected,
    )
    return proposal, {doubt.name: doubt.share for doubt in doubts}


def _list_doubts(
    chosen: Candidate, candidates: Sequence[Candidate], request: Request, source: Source
) -> list[Doubt]:
    """What speaks against the chosen candidate, other readings of the rows among it."""
    made_share = _made_share(chosen.run) if chosen.run else 1.0
    if document_draft(source):
        return [row_count_doubt(len(chosen.reading.rows)), lost_row_doubt(made_share)]
    doubts = find_doubts(chosen.reading, chosen.draft, _example_records(chosen), source, made_share)
    doubts.append(score_doubt(chosen.score))
    if request.mode == "auto" and chosen.draft.kind == "pt":
        doubts.append(conversation_doubt(_example_records(chosen)))
    names = [doubt for doubt in doubts if doubt.name == "names"]
    if request.mode == "auto":
        doubts.append(_kind_doubt(chosen, candidates, names))
    rivals = [o for o in candidates if _is_rival(o, chosen)]
    if rivals and (closeness := (rivals[0].score / chosen.score - 0.8) / 0.2) > 0:
        share = min(1.0, closeness)
        doubts.append(
            Doubt("rival", share, f"another mapping fits nearly as well: {rivals[0].draft.why}")
        )
    if not chosen.draft.explicit:
        words = names[0].seen if names else "no name of a field says so, only the values do"
        doubts.append(Doubt("unnamed", 1.0, words))
        silent = 1 - asking_share(_example_records(chosen))
        doubts.append(Doubt("nobody asks", silent, f"{silent:.0%} of the prompts ask nothing"))
    return doubts


def _kind_doubt(
    chosen: Candidate, candidates: Sequence[Candidate], names: Sequence[Doubt]
) -> Doubt:
    """How well the rows fit as documents where they are taken as conversations, or otherwise."""
    kind = "sft" if chosen.draft.kind == "pt" else "pt"
    best = max((o.score for o in candidates if o.draft.kind == kind), default=0.0)
    share, other = max(0.0, min(1.0, 2 * best / chosen.score - 1)), _OTHER_KINDS[kind]
    if names and names[0].share == 1:
        return Doubt("kind", max(share, _NAMELESS), names[0].seen)
    return Doubt("kind", share, f"the rows may also be {other}")


def _is_rival(other: Candidate, chosen: Candidate) -> bool:
    """Whether another candidate makes other records of the rows, of the same kind."""
    if other.draft.kind != chosen.draft.kind:
        return False
    whole = chosen.draft.body
    return other.draft.body != whole and other.draft.body not in whole.get("any_of", ())


def _no_mapping_proposal(
    source: Source,
    sample: Sample,
    candidates: Sequence[Candidate],
    rivals: Sequence[Candidate],
    request: Request,
) -> Proposal:
    best = candidates[0] if candidates else None
    what = {"pt": "running text", "sft": "a conversation with answers"}.get(
        request.mode, "running text or a conversation with answers"
    )
    score = best.score if best else 0.0
    rows = [row.value for row in sample.rows]
    confidence = nothing_confidence(rows, request.mode, score, other_files_share(source).share)
    reason = unconverted_reason(rows)
    if rivals:
        kind, rival_why = rivals[0].draft.kind, rivals[0].draft.why
        reason = f"with the mode {kind} there is something: {rival_why}"
    confidence = min(confidence, MOST_SURE) if reason else confidence
    doubt = reason or f"{prose_share(rows):.0%} of the characters stand in texts of several words"
    hint = f" But {reason}." if reason else click_log_hint(source, rows)
    why = f"the best reading reaches {score:.2f}" if best else "no reading of the rows fits"
    return Proposal(
        decision="irrelevant",
        mapping=None,
        confidence=confidence,
        reason=f"Nothing in {len(rows)} sampled rows is {what}.{hint}",
        evidence=(
            Evidence(
                target="decision",
                choice="irrelevant",
                why=why,
                runner_up=f"{best.draft.kind}: {best.draft.why}" if best else None,
                confidence=confidence,
            ),
            Evidence(target="doubt", choice="texts", why=doubt),
        ),
        mapper="rules",
    )


def propose(source: Source, sample: Sample, request: Request) -> Proposal:
    """Propose a mapping from rules alone: deterministic, offline."""
    return propose_with_doubts(source, sample, request)[0]


def propose_with_doubts(
    source: Source, sample: Sample, request: Request
) -> tuple[Proposal, dict[str, float]]:
    """Return the proposal and its doubts by name, from which its confidence is computed.

    A known layout comes first; if its mapping does not fit the rows, the evidence says so.
    """
    known, unfit = propose_known(source, sample, request)
    if known is not None:
        return known, {}
    proposal, doubts = _propose_generally(source, sample, request)
    return replace(proposal, evidence=(*proposal.evidence, *unfit)), doubts


def _propose_generally(
    source: Source, sample: Sample, request: Request
) -> tuple[Proposal, dict[str, float]]:
    modes = ("pt", "sft") if request.mode == "auto" else (request.mode,)
    drafted = find_candidates(source, sample, modes)
    ran = [_run_candidate(c, request) for c in drafted[:MOST_TRIES]]
    ran += [c for m in modes for c in _late_candidate(drafted[MOST_TRIES:], ran, m, request)]
    if request.mode == "auto" and not document_draft(source):
        ran = _prefer_turns([_score_open_mode(c) for c in ran])
    ran.sort(key=lambda c: -c.score)
    chosen = [c for c in ran if c.score >= LEAST_SCORE[c.draft.kind]]
    if not chosen:
        rivals = _other_mode(source, sample, request)
        return _no_mapping_proposal(source, sample, ran, rivals, request), {}
    rivals = [*chosen[1:], *[c for c in ran if c not in chosen]]
    return _make_proposal(chosen[0], rivals, request, source)


def _other_mode(source: Source, sample: Sample, request: Request) -> list[Candidate]:
    """What there is to convert in the mode that was not asked for, best first."""
    kind = {"pt": "sft", "sft": "pt"}.get(request.mode)
    drafted = find_candidates(source, sample, (kind,)) if kind else []
    ran = [_score_open_mode(_run_candidate(draft, request)) for draft in drafted[:_OTHER_TRIES]]
    good = [candidate for candidate in ran if candidate.score >= _OTHER_SCORE]
    return sorted(good, key=lambda candidate: -candidate.score)


def _late_candidate(
    rest: Sequence[Candidate], ran: Sequence[Candidate], mode: str, request: Request
) -> list[Candidate]:
    """The best of a kind that was crowded out of the first tries."""
    if any(c.draft.kind == mode and c.score >= LEAST_SCORE[mode] for c in ran):
        return []
    return [_run_candidate(c, request) for c in rest if c.draft.kind == mode][:3]
