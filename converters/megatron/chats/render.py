"""A chat as one text: the ChatML rendering, with the place of every message in it.

Every message is `<|im_start|>ROLE`, a line break, the content as it is, `<|im_end|>`, a line
break. The record's `system` comes first as a message of role system; tool definitions stand in
that message under a line `# Tools`, after a blank line where there is a system text. Nothing is
stripped, escaped or added: a marker that stands in a content reads as a marker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ingot.converters.errors import IngotError
from ingot.converters.rows import Json

RENDERING: Final = "chatml"  # recorded beside the tokens
START: Final = "<|im_start|>"
END: Final = "<|im_end|>"


class TemplateError(IngotError):
    """A template cannot render one record, or what it trains on cannot be told. Field: problem."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Characters `start` to `end` of a rendered text that a message's role produces.

    That is the content and the end marker, which the model has to learn to write; not the header.
    `trained` is the message's loss mask.
    """

    start: int
    end: int
    trained: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """A rendered chat: the text, and its spans in order.

    ChatML gives one span per message, every other template those of trained messages.
    """

    text: str
    spans: tuple[Span, ...]


def render_chat(
    messages: Iterable[dict[str, Json]], *, system: str | None = None, tools: str | None = None
) -> Rendered:
    """Render the messages of an SFT record (`role`, `content`, `loss_mask`) as ChatML.

    Args:
        messages: in order; a null content is an empty one.
        system: the record's system text, None = no system message of its own.
        tools: JSON text of the tool definitions.
    """
    pieces: list[str] = []
    spans: list[Span] = []
    length = 0
    for message in [*_system_message(system, tools), *messages]:
        header = f"{START}{message['role']}\n"
        body = f"{message['content'] or ''}{END}"
        start = length + len(header)
        length = start + len(body) + 1
        spans.append(Span(start=start, end=length - 1, trained=bool(message["loss_mask"])))
        pieces += [header, body, "\n"]
    return Rendered(text="".join(pieces), spans=tuple(spans))


def _system_message(system: str | None, tools: str | None) -> list[dict[str, Json]]:
    parts = [system] if system is not None else []
    if tools is not None:
        parts.append(f"# Tools\n{tools}")
    if not parts:
        return []
    return [{"role": "system", "content": "\n\n".join(parts), "loss_mask": False}]
