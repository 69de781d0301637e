"""compare: what the rules think of a model's proposal; an accepted answer is remembered.

The rules are a second opinion that no row can talk into anything: where they are sure and say
something else, or where the model is unsure, a person sees both.
"""

import json
from dataclasses import replace

from ingot.agent.context import Context
from ingot.agent.judging.policy import state_person_reasons
from ingot.agent.judging.trial import joint_confidence, same_records, try_out
from ingot.agent.judging.unbacked import Side, unbacked_choices
from ingot.agent.nodes.propose import rules_turn
from ingot.agent.proposing.fingerprint import fingerprint
from ingot.agent.proposing.proposal import (
    MODEL,
    SURE_CONFIDENCE,
    Evidence,
    Proposal,
    SafeProposal,
    exhausted_reason,
    redacted_proposal,
)
from ingot.agent.state import Opinion, State
from ingot.converters.errors import MappingError
from ingot.converters.rows import MappingDocument


def compare(state: State, context: Context) -> State:
    """Settle what is proposed once nobody is asked any more."""
    if context.asking is None or state["order"].mapping is not None:
        return {"opinion": None}
    settled = _settle_proposal(state)
    now: State = {**state, **settled}
    proposal = now.get("proposal")
    if proposal is None or proposal.mapper != MODEL:
        _remember_failure(now, context)
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
    rules = rules_turn(order, context).proposal
    if rules is None:
        return None
    door = context.door(order.source, order.spec)
    redacted = redacted_proposal(rules, door)
    if not proposal.mapping:
        return Opinion(agrees=rules.decision == proposal.decision, proposal=redacted)
    try:
        ours = try_out(context, order, proposal.mapping, where="the model's mapping")
        theirs = rules.mapping and try_out(context, order, rules.mapping, where="the rules'")
    except MappingError:
        return Opinion(agrees=False, proposal=redacted)
    agrees = bool(theirs and same_records(ours, theirs))
    second = Side.of(rules.mapping, theirs) if rules.mapping and theirs else None
    found = unbacked_choices(Side.of(proposal.mapping, ours), second, same_texts=agrees)
    unbacked = {gate: tuple(map(door.text, said)) for gate, said in found.items()}
    return Opinion(agrees=agrees, proposal=redacted, unbacked=unbacked or None)


def _with_opinion(proposal: SafeProposal, opinion: Opinion | None) -> SafeProposal:
    """The proposal with the rules' opinion among its evidence; agreement makes it surer."""
    if opinion is None:
        return proposal
    rules = opinion.proposal
    same = "the same" if opinion.agrees else "something else"
    why = f"the rules propose {same}: {rules.decision}, {rules.confidence:.2f}"
    evidence = Evidence(target="second opinion", choice=MODEL, why=why, runner_up="rules")
    made = replace(proposal, evidence=(*proposal.evidence, evidence))
    if not opinion.agrees:
        return made
    return replace(made, confidence=joint_confidence(proposal.confidence, rules.confidence))


def _remember_answer(state: State, context: Context) -> None:
    """Keep a new answer that passed: for other data of this shape only if sure rules say the same.

    These rows may have talked the model into it.
    """
    turn, proposal, opinion = state["turn"], state["proposal"], state.get("opinion")
    runs = state.get("check") or not (proposal and proposal.mapping)
    if turn.level and runs and not state["problems"]:
        provenance = {key: one for key, one in turn.provenance.items() if key != "mapper"}
        whoever: State = {**state, "order": replace(state["order"], min_confidence=0.0)}
        sure = opinion and opinion.agrees and opinion.proposal.confidence >= SURE_CONFIDENCE
        only_here = bool(state_person_reasons(whoever) or not sure)
        if not only_here:
            provenance.pop("card", None)  # it is not that of the others
        document = {"said": json.loads(turn.said), "provenance": provenance}
        _store_answer(state, context, document, only_here=only_here)


def _remember_failure(state: State, context: Context) -> None:
    """Keep that a model's answers do not pass on this shape: asking again would give the same."""
    if why := exhausted_reason(state.get("attempts", ())):
        _store_answer(state, context, {"failed": why}, only_here=bool(_card_shown(state)))


def _card_shown(state: State) -> str:
    """The card that the model was shown in this run, "" = none."""
    closed = [one.card for one in state.get("attempts", ())]
    return next(filter(None, [*closed, state["turn"].provenance.get("card", "")]), "")


def _store_answer(
    state: State, context: Context, document: MappingDocument, *, only_here: bool = False
) -> None:
    if context.asking is None:
        return
    order = state["order"]
    source, sample = context.source_and_sample(order.source, order.spec)
    shape = fingerprint(source, sample)
    card = context.cards.get(order.source) if _card_shown(state) else None
    rules = rules_turn(order, context).proposal
    keys = context.asking.keys(shape, sample, order.request(), rules, card)
    context.asking.store.keep(keys[only_here], document)
    if only_here and card is not None:
        context.asking.mark(keys[0])
