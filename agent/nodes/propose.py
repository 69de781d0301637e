"""propose: one turn of the mapper, or the mapping that the user gave.

repair: what was wrong goes into the history, and the mapper is asked again.
look: an answer that converts is put to the model once more, with the records that it makes.
"""

from dataclasses import asdict, replace

from ingot.agent.context import Context
from ingot.agent.judging.policy import DOUBTED_CONFIDENCE, closed_attempt
from ingot.agent.judging.taken_texts import ROWS, find_signals
from ingot.agent.judging.trial import shown_report, try_out
from ingot.agent.model.budget import Spent, Usage
from ingot.agent.privacy import redact
from ingot.agent.proposing.cards import card_evidence
from ingot.agent.proposing.proposal import Proposal, Turn, fallback_turn, redacted_proposal
from ingot.agent.state import Answer, Order, State, Stopped
from ingot.converters.errors import BudgetReached, ModelError
from ingot.converters.rows import MappingDocument

RENDERED_RECORDS = 2  # records that a model is shown at a second look


def propose(state: State, context: Context) -> State:
    """Ask the mapper, with everything that was wrong before.

    A budget that is used up, or a model that cannot be asked, is kept as `stopped`: what was spent
    stays counted, and the run goes on from here.
    """
    order, before = state["order"], state.get("usage")
    if context.asking:
        context.asking.ledger.open_set(before.spent if before else Spent())
    turn, stopped = _next_turn(order, context, state)
    proposal = _with_card_evidence(turn.proposal, order, context)
    door = context.door(order.source, order.spec)
    provenance = {**turn.provenance, **_turn_cost(turn, context), "mapper": turn.mapper}
    return {
        "proposal": redacted_proposal(proposal, door) if proposal else None,
        "problems": tuple(map(door.problem, turn.problems)),
        "turn": replace(turn, proposal=None, problems=(), notes=None, provenance=provenance),
        "usage": _total_usage(before, turn, context),
        "stopped": stopped,
    }


def _next_turn(order: Order, context: Context, state: State) -> tuple[Turn, Stopped | None]:
    """The turn, and why the run stops with it; None = it goes on."""
    if order.mapping is not None:
        return given_turn(order), None
    try:
        return _ask_mapper(order, context, state), None
    except (BudgetReached, ModelError) as error:
        no_answer = Turn(mapper=order.mapper, notes=tuple(error.notes))
        if state.get("looked"):  # there is an answer that passes: it stands
            return no_answer, None
        why = redact(error.problem)  # servers repeat what they were sent
        if isinstance(error, ModelError):
            return no_answer, Stopped(
                kind="model", where=error.where, why=why, hint=error.hint, fault=error.kind
            )
        rules = fallback_turn(rules_turn(order, context), f"a budget is used up: {error.problem}")
        stopped = Stopped(kind="budget", where=error.where, why=why, hint=error.hint)
        return replace(rules, notes=no_answer.notes), stopped


def _with_card_evidence(
    proposal: Proposal | None, order: Order, context: Context
) -> Proposal | None:
    """The proposal with what a card beside the data says of it among its evidence, nothing else."""
    card = context.cards.get(order.source)
    if proposal is None or card is None:
        return proposal
    fields = context.fields(order.source, order.spec) if card.fields else ()
    return replace(proposal, evidence=(*proposal.evidence, *card_evidence(card, proposal, fields)))


def _total_usage(before: Usage | None, turn: Turn, context: Context) -> Usage | None:
    if context.asking is None:
        return before
    spent = context.asking.ledger.data_set
    if not spent.calls and not turn.remembered and turn.notes is None:
        return before
    new = map(redact, turn.notes or ())  # servers repeat what was said
    return Usage(
        host=context.asking.endpoint.host,
        model=context.asking.endpoint.model,
        **asdict(spent),
        remembered=turn.remembered and not spent.calls,
        shared=bool(context.asking.shared),
        notes=(*(before.notes if before else ()), *new),
    )


def _turn_cost(turn: Turn, context: Context) -> MappingDocument:
    """What a model's answer took with those before it; of a remembered one it stands with it."""
    if context.asking is None or context.asking.shared or not turn.level:
        return {}
    spent = context.asking.ledger.data_set
    return {
        "cost": {
            "calls": spent.calls,
            "tokens_in": spent.tokens_in,
            "tokens_out": spent.tokens_out,
            "usd": spent.cost,
        }
    }


def _ask_mapper(order: Order, context: Context, state: State) -> Turn:
    """One answer of the mapper; a model that looks at its records is shown them again each time."""
    history = [*state.get("attempts", ())]
    if looked := state.get("looked"):
        trial = try_out(context, order, looked.proposal.mapping or {}, where="the model's mapping")
        shown = shown_report(context, order, trial, share=order.share_values)
        records = shown.examples[:RENDERED_RECORDS]
        history = [one if one.signals is None else replace(one, records=records) for one in history]
    source, sample = context.source_and_sample(order.source, order.spec)
    return context.mapper_named(order.mapper)(source, sample, order.request(), history)


def rules_turn(order: Order, context: Context) -> Turn:
    """What the rules say of the same sample."""
    source, sample = context.source_and_sample(order.source, order.spec)
    return context.mapper_named("rules")(source, sample, order.request(), ())


def given_turn(order: Order) -> Turn:
    """The turn of a user who brought a mapping file."""
    document = order.mapping or {}
    proposal = Proposal(
        decision=document_decision(document),
        mapping=document,
        confidence=1.0,
        reason="The mapping was given.",  # without its path, which must not change the report
        mapper="file",
    )
    return Turn(proposal=proposal, mapper="file")


def document_decision(document: MappingDocument) -> str:
    """What a schema-valid mapping document decides."""
    alternatives = [document, *document.get("any_of", [])]
    if any(one.get("messages") for one in alternatives):
        return "sft"
    return "pt" if any(one.get("text") for one in alternatives) else "irrelevant"


MOST_PROBLEMS = 5


def repair(state: State) -> State:
    """Close the turn as a failed attempt, with at most five of its problems."""
    attempt = closed_attempt(state, state["problems"][:MOST_PROBLEMS])
    return {"attempts": (*state["attempts"], attempt), "problems": ()}


def look(state: State, context: Context) -> State:
    """Have the model look at its records where it is unsure or they look odd; else nothing."""
    proposal = state["proposal"]
    if proposal is None:
        return {"looked": None}
    mapping = proposal.mapping or {}
    trial = try_out(context, state["order"], mapping, where="the model's mapping", show=ROWS)
    signals = find_signals(trial.mapping, trial.report)
    if not signals and proposal.confidence >= DOUBTED_CONFIDENCE:
        return {"looked": None}
    attempt = closed_attempt(state, signals=signals)
    looked = Answer(proposal=proposal, check=state["check"], turn=state["turn"])
    return {"attempts": (*state["attempts"], attempt), "looked": looked}
