"""One run of the graph from a door: begun, stopped for review, gone on with in any process.

A run is known by what was ordered and by the state of its input, so the same command finds the run
that waits for its review; a changed input or option begins a new one. A finished run is forgotten.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ingot import __version__
from ingot.agent.checkpoints import checkpoints
from ingot.agent.context import Context
from ingot.agent.state import Order, State
from ingot.converters.manifest import place, stamp
from ingot.converters.readers import Source
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from ingot.agent.graph import Graph

APPROVE: Json = {"decisions": [{"type": "approve"}]}

# What may differ between the command that stopped and the one that goes on.
_FREE = ("yes", "dry_run", "overwrite")


def thread_of(order: Order, source: Source) -> str:
    """The name of a run: a hash of the order and of place, names, sizes and times of the input."""
    document = {key: value for key, value in order.to_json().items() if key not in _FREE}
    document["source"] = place(source)
    document["out"] = str(Path(order.out).absolute()) if order.out else None
    document["version"] = __version__
    document["files"] = [stamp(file) for file in source.files]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class Session:
    """A run that can be advanced.

    Attributes:
        graph: compiled with the checkpointer that holds the run.
        order: what was ordered.
        context: what the nodes work with.
        thread: the run's name in the checkpoints.
    """

    graph: "Graph"
    order: Order
    context: Context
    thread: str

    @property
    def config(self) -> "RunnableConfig":
        """How LangGraph is told which run is meant."""
        return {"configurable": {"thread_id": self.thread}}

    def begin(self) -> State:
        """Run to the review or the end, taking up what an earlier process left.

        Raises:
            IngotError: whatever a node raises; the run stays where it was.
        """
        held = self.graph.get_state(self.config)
        if held.next:
            # The order of now counts: --yes may have been added, --overwrite too.
            self.graph.update_state(self.config, {"order": self.order.to_json()}, as_node=None)
        return self._advance(None if held.next else {"order": self.order.to_json()})

    def answer(self, answer: Json) -> State:
        """Go on from the review with `{"decisions": [...]}`.

        Raises:
            IngotError: whatever a node raises.
        """
        from langgraph.types import Command

        return self._advance(Command(resume=answer))

    def waits(self) -> bool:
        """Whether the run stands before its review."""
        return self.graph.get_state(self.config).next == ("review",)

    def forget(self) -> None:
        """Remove the run from the checkpoints."""
        saver = self.graph.checkpointer
        if saver and not isinstance(saver, bool):
            saver.delete_thread(self.thread)

    def _advance(self, what: Any) -> State:  # noqa: ANN401
        self.graph.invoke(what, self.config, context=self.context)
        return self.state()

    def state(self) -> State:
        """The state as it stands in the checkpoints."""
        return cast("State", self.graph.get_state(self.config).values)


@contextmanager
def session(order: Order, context: Context, *, home: Path | None = None) -> Iterator[Session]:
    """The run of an order, over the checkpoints of the user's state folder.

    Raises:
        SourceError: the source cannot be read.
        OutputError: the state folder cannot be written.
    """
    from ingot.agent.graph import build_graph

    source = context.source(order.source)
    with checkpoints(home) as saver:
        yield Session(
            graph=build_graph(saver), order=order, context=context, thread=thread_of(order, source)
        )
