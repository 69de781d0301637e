"""compare: what the rules think of a model's proposal; an accepted answer is remembered.

review: a person, or the gates in place of one, decide whether the proposal is converted.

pause: where a run rests whose model may not or cannot be asked, until somebody says go on.
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace

from ingot.agent.context import Context
from ingot.agent.judging import policy
from ingot.agent.judging.model_only_choices import Side, unbacked_choices
from ingot.agent.judging.policy import REVIEW_ANSWERS
from ingot.agent.judging.trial import record_hashes, try_out
from ingot.agent.privacy import EMPTY_TEXT, Safe, joined, redact
from ingot.agent.proposing.fingerprint import fingerprint
from ingot.agent.proposing.proposal import (
    BACKING_CONFIDENCE,
    MODEL,
    Evidence,
    Proposal,
    SafeProposal,
    confidence_text,
    correct_proposal,
    exhausted_reason,
    redacted_proposal,
)
from ingot.agent.reporting.proposal_folder import proposed_mapping
from ingot.agent.reporting.report import markdown_line, proposal_text
from ingot.agent.state import Opinion, Question, Review, State
from ingot.converters import json_yaml
from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import read_tree
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.rows import Json


def compare(state: State, context: Context) -> State:
    """Settle what is proposed once nobody is asked any more."""
    if context.asking is None or state["order"].mapping is not None:
        return {"opinion": None}
    settled = _settle_proposal(state)
    now: State = {**state, **settled}
    proposal = now.get("proposal")
    if proposal is None or proposal.mapper != MODEL:
        if why := exhausted_reason(now.get("attempts", ())):  # asking again would give the same
            _store_answer(now, context, {"failed": why}, only_here=bool(_card_shown(now)))
        return {**settled, "opinion": None}
    opinion = _ask_rules(now, proposal, context)
    settled |= {"opinion": opinion, "proposal": _with_opinion(proposal, opinion)}
    _remember_answer({**now, **settled}, context)
    return settled


def _settle_proposal(state: State) -> State:
    """The better of two answers; the rules' fallback is no proposal if it fails on the sample."""
    looked, proposal = state.get("looked"), state.get("proposal")
    problems, fallback = state["problems"], state["turn"].fallback
    if looked and (proposal is None or problems or fallback):
        answer: State = {"proposal": looked.proposal, "check": looked.check, "turn": looked.turn}
        return {**answer, "problems": ()}
    if proposal and fallback and problems:
        reason = f"{proposal.reason} It does not pass on the sample."
        return {"proposal": replace(proposal, decision="unmappable", reason=reason)}
    return {}


def _ask_rules(state: State, proposal: Proposal, context: Context) -> Opinion | None:
    """The rules' proposal, and whether it makes the same of the sample."""
    order = state["order"]
    rules = context.ask_rules(order.request()).proposal
    if rules is None:
        return None
    redactor = context.data.redactor
    redacted = redacted_proposal(rules, redactor)
    if proposal.mapping is None:
        return Opinion(agrees=rules.decision == proposal.decision, proposal=redacted)
    try:
        ours = try_out(context.readings, order, proposal.mapping, where="the model's mapping")
    except MappingError:
        return Opinion(agrees=False, proposal=redacted)
    theirs = None
    with contextlib.suppress(MappingError):
        theirs = rules.mapping and try_out(
            context.readings, order, rules.mapping, where="the rules'"
        )
    agrees = bool(theirs and record_hashes(ours) == record_hashes(theirs))
    second = Side.of(rules.mapping, theirs) if rules.mapping and theirs else None
    found = unbacked_choices(Side.of(proposal.mapping, ours), second, same_texts=agrees)
    unbacked = {gate: tuple(map(redactor.text, said)) for gate, said in found.items()}
    return Opinion(agrees=agrees, proposal=redacted, unbacked=unbacked or None)


def _with_opinion(proposal: SafeProposal, opinion: Opinion | None) -> SafeProposal:
    """The proposal with the rules' opinion among its evidence; agreement makes it surer."""
    if opinion is None:
        return proposal
    rules = opinion.proposal
    same = "the same" if opinion.agrees else "something else"
    why = f"the rules propose {same}: {rules.decision}, {confidence_text(rules.confidence)}"
    evidence = Evidence(target="second opinion", choice=MODEL, why=why, runner_up="rules")
    made = replace(proposal, evidence=(*proposal.evidence, evidence))
    if not opinion.agrees:
        return made
    both_wrong = (1 - proposal.confidence) * (1 - rules.confidence)  # they came to it by other ways
    return replace(made, confidence=round(min(0.99, 1 - both_wrong), 3))


def _remember_answer(state: State, context: Context) -> None:
    """Keep an answer that passed; for the shape if sure rules agree: rows may have led to it."""
    turn, proposal, opinion = state["turn"], state["proposal"], state.get("opinion")
    runs = state.get("check") or not (proposal and proposal.mapping)
    if turn.level and runs and not state["problems"]:
        provenance = {key: one for key, one in turn.provenance.items() if key != "mapper"}
        whoever: State = {**state, "order": replace(state["order"], min_confidence=0.0)}
        sure = opinion and opinion.agrees and opinion.proposal.confidence >= BACKING_CONFIDENCE
        only_here = bool(policy.state_person_reasons(whoever) or not sure)
        if not only_here:
            provenance.pop("card", None)  # it is not that of the others
        document = {"said": json.loads(turn.said), "provenance": provenance}
        _store_answer(state, context, document, only_here=only_here)


def _card_shown(state: State) -> str:
    """The card that the model was shown in this run, "" = none."""
    closed = [one.card for one in state.get("attempts", ())]
    return next(filter(None, [*closed, state["turn"].provenance.get("card", "")]), "")


def _store_answer(
    state: State, context: Context, document: dict[str, Json], *, only_here: bool = False
) -> None:
    if context.asking is None:
        return
    order = state["order"]
    sample = context.data.sample
    shape = fingerprint(context.data.source, sample)
    card = context.cards.get(order.source) if _card_shown(state) else None
    rules = context.ask_rules(order.request()).proposal
    keys = context.asking.keys(shape, sample, order.request(), rules, card)
    for key in keys[only_here:]:  # the same rows find the last answer, whatever others were told
        context.asking.store.keep(key, document)
    if only_here and card is not None:
        context.asking.mark(keys[0])


REVIEW_ACTION = "convert"
_NOTHING_TO_CONVERT = (
    "Nothing to convert: approve records that in the folder, reject writes nothing, "
    "a mapping in place of this one is tried."
)


def review_question(state: State) -> Question | None:
    """The question to a person, in the form that agent inboxes show; None: the gates decide."""
    order, before = state["order"], state.get("review")
    if order.dry_run:
        return None
    halted = state.get("halted")
    why = halted.why if halted else EMPTY_TEXT
    why = before.why if before and before.decision == "again" else why
    if order.yes and not (before and policy.is_attended(state)):
        decided = policy.review_by_gates(state)
        if decided.decision != "person" or not policy.is_attended(state):
            return None
        why = Safe(f"Only a person may decide this: {markdown_line(decided.why)}")
    proposal = state["proposal"]
    nothing = proposal is not None and proposal.decision == "irrelevant"
    mapping = (proposal and proposal.mapping) or proposed_mapping(state)
    paragraphs = [why, Safe(_NOTHING_TO_CONVERT if nothing else ""), proposal_text(state)]
    return _inbox_question(
        REVIEW_ACTION,
        {"mapping": to_document(mapping) if mapping else None},
        paragraphs,
        policy.allowed_answers(state),
        {
            "type": "object",
            "properties": {"mapping": json_yaml.schema("mapping")},
            "required": ["mapping"],
        },
    )


def review(state: State, _: Context) -> State:
    """Let the gates decide. Who gives a mapping has seen what its sample shows."""
    order = state["order"]
    if order.dry_run:
        return {"review": Review(decision="dry_run")}
    return {"review": policy.review_by_gates(state), "seen": order.mapping is not None}


def _inbox_question(
    name: str,
    arguments: dict[str, Json],
    paragraphs: Sequence[Safe],
    answers: Sequence[str],
    schema: dict[str, Json],
) -> Question:
    text = joined(filter(None, paragraphs))
    action = {"name": name, "args": arguments, "description": text}
    config = {"action_name": name, "allowed_decisions": list(answers), "args_schema": schema}
    return {"action_requests": [action], "review_configs": [config]}


def answer_review(state: State, answer: Json) -> State:
    """What an answer `{"decisions": [...]}` makes of the state; one with a fault is asked again."""
    if fault := answer_fault(answer, policy.allowed_answers(state)):  # it must not end the run
        return {"review": Review(decision="again", why=fault)}
    decision = answer["decisions"][0]
    if decision["type"] == "edit":
        document = _read_document(decision["edited_action"]["args"]["mapping"])
        return {
            "proposal": _edited_proposal(state["proposal"], document),
            "review": Review(decision="edit"),
            "opinion": None,
            "looked": None,
            "halted": None,
            "approved": {},
        }
    if decision["type"] == "approve" and (unfit := policy.unfit_reason(state)):
        return {"review": Review(decision="again", why=unfit)}
    why, halted = redact(str(decision.get("message") or "")), state.get("halted")
    answered = Review(decision=decision["type"], why=why)
    return {"review": answered, "seen": True, "approved": halted.counts if halted else {}}


def _edited_proposal(proposal: SafeProposal | None, document: Json) -> SafeProposal | None:
    """The proposal with a person's mapping; validating that decides it anew where need be."""
    if proposal is None:
        return None
    decision = "unmappable" if proposal.decision == "irrelevant" else proposal.decision
    return replace(correct_proposal(proposal, read_tree(document)), decision=decision)


def answer_fault(answer: Json, allowed: Sequence[str] = REVIEW_ANSWERS) -> Safe:
    """What is wrong with an answer, "" if nothing is; a mapping may be the text that was typed."""
    for error in json_yaml.validator("answer").iter_errors(answer):
        wanted = " | ".join(f'"{one}"' for one in allowed)
        said = markdown_line(redact(error.message[:200]))
        return redact(
            f'Not an answer ({said}); answer {{"decisions": [{{"type": {wanted}, ...}}]}}.'
        )
    decision = answer["decisions"][0]
    if decision["type"] not in allowed:
        return redact(f"Not an answer: {decision['type']} is not for this question.")
    if decision["type"] != "edit":
        return EMPTY_TEXT
    try:
        mapping = _read_document(decision["edited_action"]["args"]["mapping"])
    except (ValueError, RecursionError) as error:
        return redact(f"Not a mapping: the text is not JSON ({markdown_line(redact(str(error)))}).")
    held = isinstance(mapping, dict) and mapping
    return redact("" if held else "Not a mapping: it is not a JSON object, or an empty one.")


def _read_document(mapping: Json) -> Json:
    """The document of a mapping: forms send what was typed into them, which is its text."""
    return json.loads(mapping) if isinstance(mapping, str) else mapping


PAUSE_ACTION = "ask_again"
PAUSE_ANSWERS = ("approve", "reject")


def pause_question(state: State) -> Question:
    """Ask whether the model shall be asked again; the command line goes on without an answer."""
    stopped, before = state.get("stopped"), state.get("review")
    if stopped is None:
        raise ValueError("the run has not stopped")
    what = {"budget": "A budget is used up", "model": "The model cannot be asked"}[stopped.kind]
    why = markdown_line(Safe(f"{stopped.where}: {stopped.why}"))
    choice = "Approve asks again from here, with what was spent counted; reject ends the run."
    fault = before.why if before and before.decision == "again" else EMPTY_TEXT
    told = [fault, f"{what}: {why}.", markdown_line(Safe(stopped.hint)), choice]
    text = {"type": "string"}
    return _inbox_question(
        PAUSE_ACTION,
        {"why": why, "hint": stopped.hint},
        [*map(Safe, told)],
        PAUSE_ANSWERS,
        {"type": "object", "properties": {"why": text, "hint": text}},
    )


def answer_pause(state: State, answer: Json) -> State:
    """What an answer makes of a run that rests; one with a fault is asked again."""
    if fault := answer_fault(answer, PAUSE_ANSWERS):
        return {"review": Review(decision="again", why=fault)}
    decision = answer["decisions"][0]
    if decision["type"] == "approve":
        return {"stopped": None, "problems": (), "review": None}
    stopped = state.get("stopped")
    why = redact(str(decision.get("message") or (stopped.why if stopped else "")))
    return {"stopped": None, "review": Review(decision="reject", why=why)}
