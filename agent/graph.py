"""The graph of a run: wiring and routing only.

begin -> discover -> sample -> propose -> validate -> compare -> review -> convert -> report

A model is asked again after `repair` (with what was wrong) and after `look` (with the records that
its answer makes), at most twice in all; a run whose model may not or cannot be asked waits in
`pause`.

`graph` is compiled once, without a checkpointer: servers bring their own (langgraph.json), and the
command line gives a copy one.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ingot.agent.context import Context, context_from_environment, context_of_run
from ingot.agent.judging import policy
from ingot.agent.nodes.convert import convert
from ingot.agent.nodes.discover import discover, sample
from ingot.agent.nodes.propose import look, propose, repair
from ingot.agent.nodes.report import failed_state, report, tell
from ingot.agent.nodes.review import compare, pause, review
from ingot.agent.nodes.validate import validate
from ingot.agent.served.begin import begin, check_allowed
from ingot.agent.served.order_input import check_order
from ingot.agent.state import Channels, State
from ingot.converters.errors import IngotError
from ingot.converters.json_yaml import decode, encode

Graph = CompiledStateGraph[Any, Context, Any, Any]
ChannelsNode = Callable[[Channels, Context], Channels]
Step = TypeVar("Step", bound=str)


def route_begin(state: State) -> Literal["discover", "__end__"]:
    """Words that are not an order have been answered, and nothing runs."""
    return "discover" if "order" in state else "__end__"


def route_discover(state: State) -> Literal["sample", "review", "convert"]:
    """Without a data file there is nothing to sample: the irrelevance is recorded."""
    if "outcome" in state or not state.get("proposal"):
        return "convert" if "outcome" in state else "sample"
    return "review" if policy.asks_person(state) else "convert"


def route_validate(state: State) -> Literal["repair", "look", "compare", "tell", "pause", "report"]:
    """Problems go back to a mapper that can learn from them; a clean answer is looked at."""
    review = state.get("review")
    if "outcome" in state:
        return "report"
    if review and review.decision == "edit":
        return "tell"
    if state.get("stopped"):
        return "report" if state["order"].dry_run else "pause"
    if state["problems"]:
        return "repair" if policy.may_repair(state) else "compare"
    return "look" if policy.may_look(state) else "compare"


def route_look(state: State) -> Literal["propose", "compare"]:
    """The model is asked again only where there is something to look at."""
    return "propose" if state.get("looked") and "outcome" not in state else "compare"


def route_compare(state: State) -> Literal["review", "convert", "report"]:
    """What cannot run is reported; a sure irrelevance needs no review."""
    proposal = state.get("proposal")
    if "outcome" in state or proposal is None or proposal.decision == "unmappable":
        return "report"
    if proposal.decision == "irrelevant":
        doubt = policy.irrelevance_doubt(state)
        if policy.asks_person(state) or (doubt and policy.is_attended(state)):
            return "review"
        return "report" if doubt else "convert"
    return "review" if state.get("check") else "report"


def route_review(state: State) -> Literal["convert", "validate", "tell", "report"]:
    """Only an approved proposal that can run is converted; an edited one is validated first."""
    review, proposal = state.get("review"), state.get("proposal")
    decision = review.decision if review else "reject"
    if decision in ("edit", "again"):
        return "validate" if decision == "edit" else "tell"
    runs = state.get("check") or (proposal and proposal.decision == "irrelevant")
    return "convert" if decision == "approve" and runs else "report"


def route_convert(state: State) -> Literal["review", "report"]:
    """A gate on all rows is for a person, where one can be asked."""
    asked = state.get("halted") and (not state["order"].yes or policy.is_attended(state))
    return "review" if asked else "report"


def route_pause(state: State) -> Literal["propose", "report"]:
    """The model is asked again, unless a person has ended the run."""
    review = state.get("review")
    return "report" if review and review.decision == "reject" else "propose"


def _typed_route(route: Callable[[State], Step]) -> Callable[[Channels], Step]:
    @wraps(route)
    def run(channels: Channels) -> Step:
        return route(decode(State, channels))

    return run


def _typed_node(node: Callable[[State, Context], State]) -> ChannelsNode:
    return lambda channels, context: encode(node(decode(State, channels), context), State)


def _local_node(node: Callable[[State], State]) -> Any:  # noqa: ANN401
    """The node as LangGraph calls it, for nodes that open no data."""
    return lambda channels: encode(node(decode(State, channels)), State)


def _node_in_context(node: ChannelsNode, *, first: bool = False) -> Any:  # noqa: ANN401
    """The node as LangGraph calls it; a run without a context gets one from the environment."""

    def run(channels: Channels, runtime: Runtime[Context]) -> Channels:
        if isinstance(runtime.context, Context):
            return node(channels, runtime.context)
        info = runtime.execution_info
        run_id = info.run_id if info else None
        context = context_of_run(run_id) if run_id else context_from_environment()
        try:
            return node(channels, context) if first else _run_served(node, channels, context)
        except IngotError as error:
            raise RuntimeError(str(error)) from error

    return run


def _run_served(node: ChannelsNode, channels: Channels, context: Context) -> Channels:
    """Run a node of a server's run: its order is checked anew, and nothing runs after an error."""
    if channels.get("outcome"):
        return {}
    try:
        check_allowed(check_order(channels["order"]), context)
        return node(channels, context)
    except IngotError as error:
        if not channels.get("messages"):
            raise
        ended: Channels = encode(failed_state(decode(State, channels), error), State)
        return ended


def keeping_graph(checkpointer: BaseCheckpointSaver[Any]) -> Graph:
    """Return the graph with a checkpointer: its runs can stop for review and resume."""
    return graph.copy({"checkpointer": checkpointer})


def _compiled_graph() -> Graph:
    # No `context_schema`: servers describe it to clients, and nothing of it is theirs to give.
    builder: StateGraph[Any, Context, Any, Any] = StateGraph(State)
    builder.add_node("begin", _node_in_context(begin, first=True))
    for node in (discover, sample, propose, validate, look, compare, convert):
        builder.add_node(node.__name__, _node_in_context(_typed_node(node)))
    for local in (repair, pause, review, tell):
        builder.add_node(local.__name__, _local_node(local))
    builder.add_node(
        "report", _local_node(lambda state: {} if "outcome" in state else report(state))
    )
    builder.add_edge(START, "begin")
    for route in (
        route_begin,
        route_discover,
        route_validate,
        route_look,
        route_pause,
        route_compare,
        route_review,
        route_convert,
    ):
        builder.add_conditional_edges(route.__name__.removeprefix("route_"), _typed_route(route))
    builder.add_edge("sample", "propose")
    builder.add_edge("propose", "validate")
    builder.add_edge("repair", "propose")
    builder.add_edge("tell", "review")
    builder.add_edge("report", END)
    return builder.compile(name="ingot")


graph = _compiled_graph()
