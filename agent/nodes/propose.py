"""propose: one turn of the mapper, or the mapping that the user gave."""

from dataclasses import asdict, replace

from ingot.agent.context import Context
from ingot.agent.mappers.auto import marked
from ingot.agent.mappers.proposal import Proposal
from ingot.agent.mappers.turn import Attempt, Turn
from ingot.agent.model.budget import Spent
from ingot.agent.nodes.discover import stated_spec
from ingot.agent.redaction import redact, redacted
from ingot.agent.state import Order, State
from ingot.agent.trial import try_out
from ingot.converters.errors import BudgetReached
from ingot.converters.rows import Json

RENDERED = 2  # records that a model is shown at a second look


def propose(state: State, context: Context) -> State:
    """Ask the mapper, with everything that was wrong before; a used up budget stops the run.

    Raises:
        ModelError: the mapper needs a model, and the model cannot be asked.
    """
    order = Order(**state["order"])
    before = state.get("usage", {})
    if context.asking:
        context.asking.ledger.open_set(Spent.from_json(before))
    stopped: dict[str, Json] = {}
    try:
        turn = given(order) if order.mapping is not None else _asked(order, context, state)
    except BudgetReached as reached:
        stopped = {"why": reached.problem, "hint": reached.hint}
        turn = marked(_rules(order, context), f"a budget is used up: {reached.problem}")
    return {
        "proposal": _told(turn.proposal) if turn.proposal else None,
        "problems": [asdict(one) for one in turn.problems],
        "turn": {
            **{key: getattr(turn, key) for key in _KEPT},
            "provenance": {**turn.provenance, "mapper": turn.mapper},
        },
        "usage": _usage(before, turn, context),
        "stopped": stopped,
    }


def _told(proposal: Proposal) -> dict[str, Json]:
    """The proposal as the state holds it: what it says of values redacted, its mapping as it is."""
    told = proposal.to_json()
    evidence = redacted(told["evidence"])
    return {**told, "reason": redact(told["reason"]), "evidence": evidence}


_KEPT = ("mapper", "said", "again", "level", "fallback")


def _usage(before: dict[str, Json], turn: Turn, context: Context) -> dict[str, Json]:
    """What asking a model took so far, in this process and in earlier ones."""
    if context.asking is None:
        return before
    spent = context.asking.ledger.data_set
    if not (spent.calls or turn.asked):
        return before
    where = {"host": context.asking.endpoint.host, "model": context.asking.endpoint.model}
    new = [redact(one) for one in turn.asked.get("notes", [])]  # servers repeat what was said
    notes = [*before.get("notes", []), *new]
    told = {**before, **where, **turn.asked, **spent.to_json()}
    return {**told, "notes": notes} if notes else told


def _asked(order: Order, context: Context, state: State) -> Turn:
    history = [Attempt.from_json(one) for one in state.get("attempts", [])]
    if history and history[-1].signals is not None:
        history[-1] = replace(history[-1], records=rendered(order, context, state))
    spec = stated_spec(order)
    source, sample = context.source(order.source, spec), context.sample(order.source, spec)
    return context.turner(order.mapper)(source, sample, order.request(), history)


def _rules(order: Order, context: Context) -> Turn:
    spec = stated_spec(order)
    source, sample = context.source(order.source, spec), context.sample(order.source, spec)
    return context.turner("rules")(source, sample, order.request(), ())


def rendered(order: Order, context: Context, state: State) -> tuple[tuple[Json, Json], ...]:
    """Rows beside the records that the looked-at proposal makes of them."""
    looked = (state.get("looked") or {})["proposal"]
    trial = try_out(context, order, looked["mapping"], where="the model's mapping")
    return trial.report.examples[:RENDERED]


def given(order: Order) -> Turn:
    """The turn of a user who brought a mapping file."""
    document = order.mapping or {}
    proposal = Proposal(
        decision=decision_of(document),
        mapping=document,
        confidence=1.0,
        reason="The mapping was given.",  # without its path, which must not change the report
        mapper="file",
    )
    return Turn(proposal=proposal, mapper="file")


def decision_of(document: dict[str, Json]) -> str:
    """What a schema-valid mapping document decides."""
    alternatives = [document, *document.get("any_of", [])]
    if any(one.get("messages") for one in alternatives):
        return "sft"
    return "pt" if any(one.get("text") for one in alternatives) else "irrelevant"
