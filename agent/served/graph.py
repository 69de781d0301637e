"""The course of a run as a graph of LangGraph, which its servers run and Studio shows.

`graph` is compiled once from the table of the course, without a checkpointer: servers bring their
own (langgraph.json). Its state is plain JSON, and a run without a context gets one from the
environment.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from ingot.agent.context import Context, open_model
from ingot.agent.model.endpoint import configured_endpoint
from ingot.agent.privacy import redact
from ingot.agent.reporting.report import edited_reply, outcome_state, run_outcome
from ingot.agent.served.begin import begin, check_allowed
from ingot.agent.state import Channels, State, answer_message
from ingot.agent.steps.course import COURSE, Step
from ingot.agent.steps.order_schema import check_order
from ingot.converters.errors import IngotError
from ingot.converters.json_yaml import decode, encode

Graph = CompiledStateGraph[Any, Context, Any, Any]
Builder = StateGraph[Any, Context, Any, Any]
SERVE_ROOT = "INGOT_SERVE_ROOT"


def context_from_environment() -> Context:
    """Return the context of a graph that is run without one."""
    endpoint, root = configured_endpoint(None, None), os.environ.get(SERVE_ROOT)
    if endpoint:
        from ingot.agent.proposing.llm.mapper import AskSettings
    asking = open_model(AskSettings(endpoint=endpoint)) if endpoint else None
    return Context(asking=asking, root=Path(root) if root else None, served=True)


@lru_cache(maxsize=8)  # runs at a time; one that is older draws its sample again
def _context_of_run(run: str) -> Context:
    """The context of a server's run: its steps share what was opened and drawn."""
    return context_from_environment()


def _node(work: Callable[[Channels, Context], Channels]) -> Any:  # noqa: ANN401
    """What LangGraph calls: a server may close a run that fails, so its errors are plain ones."""

    def run(channels: Channels, runtime: Runtime[Context]) -> Channels:
        if isinstance(runtime.context, Context):
            return work(channels, runtime.context)
        info = runtime.execution_info
        run_id = info.run_id if info else None
        try:
            return work(channels, _context_of_run(run_id) if run_id else context_from_environment())
        except IngotError as error:
            raise RuntimeError(str(error)) from error

    return run


def _step_work(step: Step) -> Callable[[Channels, Context], Channels]:
    """A step on plain JSON. A served order is checked anew, and nothing runs after an error."""

    def work(channels: Channels, context: Context) -> Channels:
        if channels.get("outcome"):
            return {}
        state = decode(State, channels)
        try:
            if context.served:
                check_allowed(check_order(channels["order"]), context)
            question = step.ask(state)
            if question is not None:
                return _channels(step.answer(state, interrupt(question)))
            if step.reads:
                context.open(state["order"])
            return _channels(step.run(state, context))
        except IngotError as error:
            if not (context.served and state.get("messages")):
                raise
            ended = replace(run_outcome(state), status="failed", why=redact(str(error)))
            return _channels(outcome_state(state, ended))

    return work


def _channels(change: State) -> Channels:
    channels: Channels = encode(change, State)
    return channels


def tell(state: State, _: Context) -> State:
    """Answer a person who typed the order; others read it in the next question."""
    review = state.get("review")
    if not state.get("messages") or review is None:
        return {}
    text = review.why if review.decision == "again" else edited_reply(state)
    return {"messages": [answer_message(text)]}


def _after_begin(channels: Channels) -> Literal["discover", "__end__"]:
    """Words that are not an order have been answered, and nothing runs."""
    return "discover" if channels.get("order") else "__end__"


def _add_edges(builder: Builder, name: str, step: Step) -> None:
    """Lead to the step that follows; a run that has failed goes to the last one that is named."""
    then = step.then
    if isinstance(then, str):
        builder.add_edge(name, then)
        return
    ways: dict[str, str] = {one: one for one in get_args(get_type_hints(then)["return"])}
    if name in _TOLD:
        ways["review"] = "tell"

    def route(channels: Channels) -> str:
        return ways[[*ways][-1] if channels.get("outcome") else then(decode(State, channels))]

    builder.add_conditional_edges(name, route, [*ways.values()])


_TOLD = ("validate", "review")  # what leads from these back to the review is told first


def _compiled_graph() -> Graph:
    # No `context_schema`: servers describe it to clients, and nothing of it is theirs to give.
    builder: Builder = StateGraph(State)
    builder.add_node("begin", _node(begin))
    builder.add_edge(START, "begin")
    builder.add_conditional_edges("begin", _after_begin)
    steps = {**COURSE, "tell": Step(tell, "review")}
    for name, step in list(steps.items())[1:]:  # what a client sends may be words: see `begin`
        builder.add_node(name, _node(_step_work(step)))
        _add_edges(builder, name, step)
    return builder.compile(name="ingot")


graph = _compiled_graph()
