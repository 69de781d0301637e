"""The graph of a run: wiring and routing only.

begin -> discover -> sample -> propose -> validate -> compare -> review -> convert -> report

A model is asked again after `repair` (with what was wrong) and after `look` (with the records that
its answer makes), at most twice in all; `pause` is where a run rests whose model may not or cannot
be asked.

`graph` is compiled without a checkpointer, for servers that bring their own (langgraph.json);
`build_graph(checkpointer)` is what the doors use.
"""

from collections.abc import Callable
from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ingot.agent.context import Context, context_of_run
from ingot.agent.judging.gates import doubt_reason
from ingot.agent.judging.second_opinion import dispute_reason
from ingot.agent.nodes.compare import compare
from ingot.agent.nodes.convert import convert
from ingot.agent.nodes.discover import discover, sample
from ingot.agent.nodes.propose import propose
from ingot.agent.nodes.repair import MOST_REPAIRS, MOST_TURNS, closed_attempt, look, repair
from ingot.agent.nodes.report import failed_state, report, tell
from ingot.agent.nodes.review import asks_person, is_attended, pause, review
from ingot.agent.nodes.validate import validate
from ingot.agent.proposing.auto import exhausted_reason
from ingot.agent.proposing.proposal import MODEL, Attempt
from ingot.agent.served.begin import begin, check_allowed
from ingot.agent.served.order_input import check_order
from ingot.agent.state import State
from ingot.converters.errors import IngotError

Graph = CompiledStateGraph[State, Context, State, State]


def is_ended(state: State) -> bool:
    """Whether an error has ended the run."""
    return bool(state.get("outcome"))


def route_begin(state: State) -> Literal["discover", "__end__"]:
    """What a person typed may be no order: the answer says so, and nothing is run."""
    return "discover" if state["order"] else "__end__"


def route_discover(state: State) -> Literal["sample", "review", "convert"]:
    """Without a data file there is nothing to sample: the irrelevance is recorded."""
    if is_ended(state) or not state.get("proposal"):
        return "convert" if is_ended(state) else "sample"
    return "review" if asks_person(state) else "convert"


def route_validate(
    state: State,
) -> Literal["repair", "look", "compare", "tell", "pause", "report"]:
    """Problems go back to a mapper that can learn from them, a clean answer is looked at."""
    if is_ended(state):
        return "report"
    if state.get("review", {}).get("decision") == "edit":
        return "tell"
    if state["stopped"]:
        return "report" if state["order"]["dry_run"] else "pause"
    if state["problems"]:
        return "repair" if may_repair(state) else "compare"
    return "look" if may_look(state) else "compare"


def may_repair(state: State) -> bool:
    """Two corrections; a model's turns count by themselves (`auto.exhausted`), then the rules'."""
    most = MOST_TURNS if state["order"]["mapper"] in ("auto", MODEL) else MOST_REPAIRS
    return bool(state["turn"]["again"]) and len(state["attempts"]) < most


def may_look(state: State) -> bool:
    """Once, at a mapping that a model has just made, while it may be asked at all."""
    attempts = [Attempt.from_json(one) for one in state["attempts"]]
    looked = any(one.signals is not None for one in attempts)
    made = bool(state["turn"]["level"]) and bool(state["check"])
    return made and not looked and not exhausted_reason([*attempts, closed_attempt(state, ())])


def route_look(state: State) -> Literal["propose", "compare"]:
    """Asked again only where there is something to look at."""
    return "propose" if state["looked"] and not is_ended(state) else "compare"


def route_compare(state: State) -> Literal["review", "convert", "report"]:
    """What nobody can run is reported; that there is nothing to convert needs no review if sure."""
    proposal = state.get("proposal")
    if is_ended(state) or proposal is None or proposal["decision"] == "unmappable":
        return "report"
    if proposal["decision"] == "irrelevant":
        doubted = doubt_reason(proposal, state["order"]["min_confidence"]) or dispute_reason(state)
        if asks_person(state) or (doubted and is_attended(state)):
            return "review"
        return "report" if doubted else "convert"
    return "review" if state["check"] else "report"


def route_review(state: State) -> Literal["convert", "validate", "tell", "report"]:
    """Only an approved proposal that can be run is converted; an edited one is validated first."""
    decision = state["review"]["decision"]
    if decision in ("edit", "again"):
        return "validate" if decision == "edit" else "tell"
    nothing = (state["proposal"] or {})["decision"] == "irrelevant"
    return "convert" if decision == "approve" and (state.get("check") or nothing) else "report"


def route_pause(state: State) -> Literal["propose", "report"]:
    """The model is asked again, unless a person has ended the run."""
    return "report" if state.get("review", {}).get("decision") == "reject" else "propose"


def _with_context(node: Callable[[State, Context], State]) -> Any:  # noqa: ANN401
    """The node as LangGraph calls it; a run without a context gets one from the environment."""

    def run(state: State, runtime: Runtime[Context]) -> State:
        told = runtime.execution_info
        brought = runtime.context if isinstance(runtime.context, Context) else None
        if brought:
            return node(state, brought)
        return _run_served_node(node, state, context_of_run(told.run_id if told else None))

    return run


def _run_served_node(
    node: Callable[[State, Context], State], state: State, context: Context
) -> State:
    """A node of a server's run.

    The order is looked at before each of them: clients may write into the state. After an error
    that was told in words no node does anything: the run goes the short way to its end.
    """
    if is_ended(state) and node is not begin:
        return {}
    try:
        if node is not begin:
            check_allowed(check_order(state["order"]), context)
        return node(state, context)
    except IngotError as error:
        if state.get("messages") and node is not begin:
            return failed_state(state, error)
        raise RuntimeError(str(error)) from error


def _report_if_running(state: State) -> State:
    return {} if is_ended(state) else report(state)


def build_graph(checkpointer: BaseCheckpointSaver[Any] | None = None) -> Graph:
    """The compiled graph; with a checkpointer a run can stop for review and go on elsewhere."""
    # No `context_schema`: servers describe it to clients, and nothing of it is theirs to give.
    builder: StateGraph[State, Context, State, State] = StateGraph(State)
    for working in (begin, discover, sample, propose, validate, look, compare, convert):
        builder.add_node(working.__name__, _with_context(working))
    for pure in (repair, pause, review, tell):
        builder.add_node(pure.__name__, pure)
    builder.add_node("report", _report_if_running)
    builder.add_edge(START, "begin")
    builder.add_conditional_edges("begin", route_begin)
    builder.add_conditional_edges("discover", route_discover)
    builder.add_edge("sample", "propose")
    builder.add_edge("propose", "validate")
    builder.add_conditional_edges("validate", route_validate)
    builder.add_edge("repair", "propose")
    builder.add_conditional_edges("look", route_look)
    builder.add_conditional_edges("pause", route_pause)
    builder.add_conditional_edges("compare", route_compare)
    builder.add_conditional_edges("review", route_review)
    builder.add_edge("tell", "review")
    builder.add_edge("convert", "report")
    builder.add_edge("report", END)
    return builder.compile(checkpointer=checkpointer, name="ingot")


graph = build_graph()
