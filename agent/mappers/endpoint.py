"""Where questions to a model were asked from before `ingot.agent.model`; goes with its callers."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingot.agent.model import ladder
from ingot.agent.model.budget import Ledger
from ingot.agent.model.endpoint import Endpoint, configured
from ingot.agent.model.ladder import Message
from ingot.agent.model.store import Store
from ingot.converters.rows import Json

__all__ = ["Completion", "Endpoint", "Message", "ask", "configured"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What came back: text, whether it hit the length limit, characters sent, tokens."""

    text: str
    cut_off: bool
    chars_sent: int
    tokens_in: int
    tokens_out: int
    format: str


def ask(endpoint: Endpoint, messages: Sequence[Message], schema: dict[str, Json]) -> Completion:
    """One reply, without memory and limits.

    Raises:
        ModelError: the endpoint cannot be reached, refuses, or returns no reply.
    """
    ledger = Ledger()
    found = ladder.ask(endpoint, messages, schema, store=Store(None), ledger=ledger)
    return Completion(
        text=found.text,
        cut_off=found.cut_off,
        chars_sent=ledger.run.chars_sent,
        tokens_in=ledger.run.tokens_in,
        tokens_out=ledger.run.tokens_out,
        format="none" if found.level == "prompt" else found.level,
    )
