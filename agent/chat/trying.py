"""How a conversation works on the data: begun by the graph, each change tried, at last converted.

It is the graph's own nodes that sample, propose, validate and convert; here they are called in the
order that a person wants them.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import cast

from ingot.agent.chat.conversation import Conversation, Step
from ingot.agent.chat.edits import Edit, applied
from ingot.agent.chat.typed import typed
from ingot.agent.context import Context
from ingot.agent.mappers.question import with_facts
from ingot.agent.nodes.convert import convert
from ingot.agent.nodes.discover import stated_spec
from ingot.agent.nodes.report import report
from ingot.agent.nodes.validate import validate
from ingot.agent.state import Order, State
from ingot.converters.errors import ModelError, Problem
from ingot.converters.rows import Json

_NO_PROPOSAL: dict[str, Json] = {
    "decision": "unmappable",
    "confidence": 1.0,
    "reason": "settled in conversation.",
    "evidence": [],
    "detected": {},
}


def begun(id_: str, order: Order, context: Context, tell: Callable[[str], None]) -> Conversation:
    """A conversation about what the mapper proposes.

    Args:
        id_: the conversation's.
        order: what was ordered.
        context: what the nodes work with.
        tell: is told the name of every node that has done its work.

    Raises:
        IngotError: whatever a node raises.
    """
    from ingot.agent.graph import build_graph

    state: State = {"order": _tried(order)}
    for step in build_graph().stream(
        {"order": state["order"]}, context=context, stream_mode="updates"
    ):
        for node, update in step.items():
            state = cast("State", {**state, **(update or {})})
            tell(node)
    stopped = state.get("stopped") or {}
    if stopped.get("kind") == "model":
        raise ModelError(stopped["where"], stopped["why"], stopped["hint"], kind=stopped["fault"])
    by = (state.get("proposal") or {}).get("mapper") or order.mapper
    first = Step(words="", by=by, state=_settled(state))
    return Conversation(id=id_, order=order, steps=(first,), usage=state.get("usage", {}))


def _tried(order: Order) -> dict[str, Json]:
    """The order of a state that is only tried: nothing is written, nothing approved."""
    return replace(order, dry_run=True, yes=False).to_json()


def _settled(state: State) -> State:
    """The state as a conversation keeps it: neither stopped nor reviewed."""
    kept = {key: value for key, value in state.items() if key not in ("outcome", "result", "key")}
    return cast("State", {**kept, "stopped": {}, "review": {}})


def changed(
    state: State,
    edits: Sequence[Edit],
    context: Context,
    *,
    provenance: dict[str, Json] | None = None,
) -> State:
    """The state after edits, checked on the sample; what is wrong with it is in its `problems`.

    Args:
        state: as it is.
        edits: what is to be changed.
        context: what the nodes work with.
        provenance: what the mapping's provenance is to say besides.

    Raises:
        MappingError: an edit cannot be done.
        SourceError: the source cannot be read any more.
    """
    mapping = (state.get("proposal") or {}).get("mapping") or {"version": 2}
    turn = state["turn"]
    told = {**turn, "provenance": {**turn["provenance"], **(provenance or {})}}
    order = Order(**state["order"])
    source, sample = context.drawn(order.source, stated_spec(order))
    made = with_facts(applied(mapping, typed(edits, mapping, sample)), source, sample)
    return with_mapping({**state, "turn": told}, made, context)


def refused(before: State, after: State, edits: Sequence[Edit] = ()) -> tuple[Problem, ...]:
    """Why a change is not made: it names what is nowhere, or cannot be run at all.

    What is half done (a question without its answer yet, another `each` before its texts) is made,
    and its problems are shown.

    Args:
        before: the state before it.
        after: the state with it.
        edits: what was changed.
    """
    problems = tuple(Problem(**one) for one in after["problems"])
    known = before.get("problems", [])
    moved = any(one["set"] in _AROUND for one in edits)
    nowhere = ("unreadable",) if moved else ("unreadable", "unresolved_path")
    new = tuple(one for one in problems if one.code in nowhere and asdict(one) not in known)
    return new or (() if after.get("check") else problems)


_AROUND = ("each", "group", "root")  # where all other paths start


def with_mapping(state: State, mapping: dict[str, Json], context: Context) -> State:
    """The state with another mapping, checked on the sample; a person stands behind it.

    Raises:
        SourceError: the source cannot be read any more.
    """
    proposal = {**_NO_PROPOSAL, **(state.get("proposal") or {}), "mapping": mapping}
    proposal |= {"mapper": "edited", "reason": _NO_PROPOSAL["reason"]}
    begun_with: State = {
        **state,
        "proposal": proposal,
        "problems": [],
        "check": None,
        "opinion": None,
        "looked": None,
    }
    return {**begun_with, **validate(begun_with, context)}


def rechecked(conversation: Conversation, context: Context) -> Conversation:
    """The conversation with its current mapping checked on the data and by the order as they are.

    Raises:
        SourceError: the source cannot be read any more.
    """
    step = conversation.steps[conversation.at]
    if not (step.state.get("proposal") or {}).get("mapping"):
        return conversation
    state: State = {**step.state, "order": _tried(conversation.order), "problems": []}
    now = replace(step, state={**state, **validate(state, context)})
    steps = list(conversation.steps)
    steps[conversation.at] = now
    return replace(conversation, steps=tuple(steps))


def converted(conversation: Conversation, context: Context) -> State:
    """The state after the approved mapping was converted into the order's `out`.

    Raises:
        IngotError: whatever a conversion raises.
    """
    order = replace(conversation.order, dry_run=False, yes=False)
    review = {"decision": "approve", "why": "approved in conversation"}
    state: State = {**conversation.state, "order": order.to_json(), "review": review}
    state = {**state, "usage": conversation.usage}
    state = {**state, **convert(state, context)}
    return {**state, **report(state)}
