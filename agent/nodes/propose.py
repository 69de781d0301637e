"""propose: one turn of the mapper, or the mapping that the user gave."""

from dataclasses import asdict

from ingot.agent.context import Context
from ingot.agent.mappers.proposal import Proposal
from ingot.agent.mappers.turn import Attempt, Turn
from ingot.agent.nodes.discover import stated_spec
from ingot.agent.state import Order, State
from ingot.converters.rows import Json


def propose(state: State, context: Context) -> State:
    """Ask the mapper, with everything that was wrong before.

    Raises:
        ModelError: the mapper needs a model, and the model cannot be asked.
    """
    order = Order(**state["order"])
    turn = given(order) if order.mapping is not None else _asked(order, context, state)
    return {
        "proposal": turn.proposal.to_json() if turn.proposal else None,
        "problems": [asdict(one) for one in turn.problems],
        "turn": {**turn.provenance, "mapper": turn.mapper, "said": turn.said, "again": turn.again},
        "usage": added(state.get("usage", {}), turn.usage),
    }


def _asked(order: Order, context: Context, state: State) -> Turn:
    history = [Attempt.from_json(one) for one in state.get("attempts", [])]
    spec = stated_spec(order)
    source, sample = context.source(order.source, spec), context.sample(order.source, spec)
    return context.turner(order.mapper)(source, sample, order.request(), history)


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


def added(total: dict[str, Json], usage: dict[str, Json]) -> dict[str, Json]:
    """Counts of both added up; names are those of the later one."""
    counts = {key: value for key, value in usage.items() if isinstance(value, int)}
    return {**total, **usage, **{key: total.get(key, 0) + one for key, one in counts.items()}}
