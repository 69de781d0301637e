"""Run the graph once: start, stop for review, resume in any process.

There is one run per destination. It is known by what was ordered and by the state of its input, so
the same command finds the run that waits for its review or was killed; a changed input or option
begins a new one in its place. A finished run is forgotten.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot import __version__
from ingot.agent.context import Context, open_checkpoints
from ingot.agent.reporting.proposal_folder import check_unedited
from ingot.agent.state import Channels, Order, State
from ingot.converters.errors import ConversionError, MappingError, ModelError
from ingot.converters.json_yaml import decode, encode, json_digest
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.facts import absolute_location, input_stamp

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from ingot.agent.graph import Graph
    from ingot.agent.model.endpoint import Endpoint

PAUSE = "pause"
# What may differ between the command that stopped and the one that goes on.
_FREE = ("yes", "min_confidence", "overwrite", "workers", "allow_drift", "approve_counts")


def run_once(order: Order, context: Context) -> State:
    """A run that neither stops nor is kept: a dry run, or a proposal alone."""
    from ingot.agent.graph import graph

    return typed_state(graph.invoke({"order": encode(order)}, context=context))


@dataclass(frozen=True, kw_only=True)
class Session:
    """A run that can be advanced; `key` tells it from another one into the same destination."""

    graph: "Graph"
    order: Order
    context: Context
    key: str

    @property
    def config(self) -> "RunnableConfig":
        """How LangGraph is told which run is meant."""
        out = str(Path(self.order.out or "").resolve())
        return {"configurable": {"thread_id": hashlib.sha256(out.encode()).hexdigest()[:32]}}

    def begin(self) -> State:
        """Run to the review or the end, taking up what an earlier process left."""
        check_unedited(self.order)
        held = self.graph.get_state(self.config)
        order = {"order": encode(self.order), "key": self.key}
        if held.next and held.values.get("key") == self.key:
            if held.next == (PAUSE,):  # a budget may have been raised: the model is asked again
                self.graph.update_state(
                    self.config, {**order, "stopped": {}, "problems": []}, as_node=PAUSE
                )
            else:  # --yes may have been added; who was last behind a pause LangGraph mistakes
                last = "repair" if held.next == ("propose",) else None
                self.graph.update_state(self.config, order, as_node=last)
            return self._run_graph(None)
        self.forget()
        return self._run_graph(order)

    def answer(self, answer: Json, changed: State | None = None) -> State:
        """Go on from the review with `{"decisions": [...]}`, and with what else has changed."""
        from langgraph.types import Command

        return self._run_graph(Command(resume=answer, update=encode(changed or {}, State)))

    def is_waiting(self) -> bool:
        """Whether the run stands before its review."""
        return self.graph.get_state(self.config).next == ("review",)

    def is_at_rest(self) -> bool:
        """Whether the run stopped before a question: a budget is used up, or the model is gone."""
        return self.graph.get_state(self.config).next == (PAUSE,)

    def forget(self) -> None:
        """Remove the run from the checkpoints."""
        saver = self.graph.checkpointer
        if saver and not isinstance(saver, bool):
            saver.delete_thread(self.config["configurable"]["thread_id"])

    def _run_graph(self, what: Any) -> State:  # noqa: ANN401
        try:
            self.graph.invoke(what, self.config, context=self.context)
        except (MappingError, ConversionError):
            self.forget()  # what cannot be converted is proposed and reviewed anew
            raise
        return typed_state(self.graph.get_state(self.config).values)


def typed_state(channels: Channels) -> State:
    """The state of a run; raise the error of a model that could not be asked."""
    state = decode(State, channels)
    stopped = state.get("stopped")
    if stopped is None or stopped.kind != "model":
        return state
    raise ModelError(stopped.where, stopped.why, stopped.hint, kind=stopped.fault or "")


@contextmanager
def open_session(order: Order, context: Context, *, home: Path | None = None) -> Iterator[Session]:
    """The run of an order, over the checkpoints of the user's state folder."""
    from ingot.agent.graph import keeping_graph

    source = context.source(order.source, order.spec)
    key = session_key(order, source, context.asking.endpoint if context.asking else None)
    with open_checkpoints(home) as saver:
        yield Session(graph=keeping_graph(saver), order=order, context=context, key=key)


def session_key(order: Order, source: Source, endpoint: "Endpoint | None" = None) -> str:
    """A hash of the order, of this version, of the model, and of the input's place and files."""
    document = {key: value for key, value in encode(order).items() if key not in _FREE}
    document |= {"source": absolute_location(source.location), "version": __version__}
    document["model"] = [endpoint.url, endpoint.model] if endpoint else None
    document["files"] = [input_stamp(file) for file in source.files]
    return json_digest(document)
