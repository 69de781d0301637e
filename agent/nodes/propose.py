"""propose: one turn of the mapper, or the mapping that the user gave."""

from dataclasses import asdict, replace

from ingot.agent.context import Context
from ingot.agent.judging.trial import try_out
from ingot.agent.model.budget import Spent
from ingot.agent.nodes.discover import spec_of_order
from ingot.agent.privacy import redact, redact_value
from ingot.agent.proposing.auto import fallback_turn
from ingot.agent.proposing.cards import card_evidence
from ingot.agent.proposing.proposal import Attempt, Proposal, Turn
from ingot.agent.state import Order, State
from ingot.converters.errors import BudgetReached, ModelError
from ingot.converters.rows import Json

RENDERED_RECORDS = 2  # records that a model is shown at a second look


def propose(state: State, context: Context) -> State:
    """Ask the mapper, with everything that was wrong before.

    A budget that is used up, or a model that cannot be asked, is kept as `stopped`: what was spent
    stays counted, and the run goes on from here.
    """
    order = Order(**state["order"])
    before = state.get("usage", {})
    if context.asking:
        context.asking.ledger.open_set(Spent.from_json(before))
    turn, stopped = _next_turn(order, context, state)
    proposal = _with_card_evidence(turn.proposal, order, context)
    return {
        "proposal": redacted_proposal(proposal) if proposal else None,
        "problems": [asdict(one) for one in turn.problems],
        "turn": {
            **{key: getattr(turn, key) for key in _TURN_KEYS},
            "provenance": {**turn.provenance, **_turn_cost(turn, context), "mapper": turn.mapper},
        },
        "usage": _total_usage(before, turn, context),
        "stopped": stopped,
    }


def _next_turn(order: Order, context: Context, state: State) -> tuple[Turn, dict[str, Json]]:
    """The turn, and why the run stops with it; {} = it goes on."""
    if order.mapping is not None:
        return given_turn(order), {}
    try:
        return _ask_mapper(order, context, state), {}
    except (BudgetReached, ModelError) as error:
        told = {"notes": list(error.notes)}
        if state.get("looked"):  # there is an answer that passes: it stands
            return Turn(proposal=None, mapper=order.mapper, asked=told), {}
        if isinstance(error, ModelError):
            turn = Turn(proposal=None, mapper=order.mapper, asked=told)
            return turn, _stop_reason("model", error) | {"fault": error.kind}
        rules = fallback_turn(rules_turn(order, context), f"a budget is used up: {error.problem}")
        return replace(rules, asked=told), _stop_reason("budget", error)


def _with_card_evidence(
    proposal: Proposal | None, order: Order, context: Context
) -> Proposal | None:
    """The proposal with what a card beside the data says of it among its evidence, nothing else."""
    card = context.cards.get(order.source)
    if proposal is None or card is None:
        return proposal
    fields = context.fields(order.source, spec_of_order(order)) if card.fields else ()
    return replace(proposal, evidence=(*proposal.evidence, *card_evidence(card, proposal, fields)))


def _stop_reason(kind: str, error: BudgetReached | ModelError) -> dict[str, Json]:
    """Why a run stops, as the state holds it; servers repeat what they were sent."""
    why, hint = redact(error.problem), error.hint
    return {"kind": kind, "where": error.where, "why": why, "hint": hint}


def redacted_proposal(proposal: Proposal) -> dict[str, Json]:
    """The proposal as the state holds it: what it says of values redacted, its mapping as it is."""
    told = proposal.to_json()
    evidence = redact_value(told["evidence"])
    return {**told, "reason": redact(told["reason"]), "evidence": evidence}


_TURN_KEYS = ("mapper", "said", "again", "level", "fallback")


def _total_usage(before: dict[str, Json], turn: Turn, context: Context) -> dict[str, Json]:
    """What asking a model took so far, in this process and in earlier ones."""
    if context.asking is None:
        return before
    spent = context.asking.ledger.data_set
    if not (spent.calls or turn.asked):
        return before
    endpoint = context.asking.endpoint
    new = [redact(one) for one in turn.asked.get("notes", [])]  # servers repeat what was said
    notes = [*before.get("notes", []), *new]
    told: dict[str, Json] = {"host": endpoint.host, "model": endpoint.model, **spent.to_json()}
    if turn.asked.get("remembered") and not spent.calls:
        told["remembered"] = True
    if context.asking.shared:
        told["shared"] = True
    return {**told, "notes": notes} if notes else told


def _turn_cost(turn: Turn, context: Context) -> dict[str, Json]:
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
    history = [Attempt.from_json(one) for one in state.get("attempts", [])]
    if state.get("looked"):
        records = rendered_examples(order, context, state)
        history = [one if one.signals is None else replace(one, records=records) for one in history]
    source, sample = context.source_and_sample(order.source, spec_of_order(order))
    return context.mapper_named(order.mapper)(source, sample, order.request(), history)


def rules_turn(order: Order, context: Context) -> Turn:
    """What the rules say of the same sample."""
    source, sample = context.source_and_sample(order.source, spec_of_order(order))
    return context.mapper_named("rules")(source, sample, order.request(), ())


def rendered_examples(
    order: Order, context: Context, state: State
) -> tuple[tuple[Json, Json], ...]:
    """Rows beside the records that the looked-at proposal makes of them."""
    looked = (state.get("looked") or {})["proposal"]
    trial = try_out(context, order, looked["mapping"], where="the model's mapping")
    return trial.report.examples[:RENDERED_RECORDS]


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


def document_decision(document: dict[str, Json]) -> str:
    """What a schema-valid mapping document decides."""
    alternatives = [document, *document.get("any_of", [])]
    if any(one.get("messages") for one in alternatives):
        return "sft"
    return "pt" if any(one.get("text") for one in alternatives) else "irrelevant"
