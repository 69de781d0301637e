"""A chat as one text: the ChatML rendering, with the place of every message in it.

Every message is `<|im_start|>ROLE`, a line break, the content as it is, `<|im_end|>`, a line
break. The record's `system` comes first as a message of role system; tool definitions stand in
that message under a line `# Tools`, after a blank line where there is a system text. Nothing is
stripped, escaped or added: a marker that stands in a content reads as a marker.

Marks in texts that a template moves about: code points that stand for no character.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ingot.converters.errors import IngotError
from ingot.converters.rows import Json

RENDERING: Final = "chatml"  # recorded beside the tokens
TURN_START: Final = "<|im_start|>"
TURN_END: Final = "<|im_end|>"


class TemplateError(IngotError):
    """A template cannot render one record, or what it trains on cannot be told. Field: problem."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSpan:
    """Characters `start` to `end` of a rendered text that a message's role produces.

    That is the content and the end marker, which the model has to learn to write; not the header.
    `trained` is the message's loss mask.
    """

    start: int
    end: int
    trained: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedChat:
    """A rendered chat: the text, and its spans in order.

    ChatML gives one span per message, every other template those of trained messages.
    """

    text: str
    spans: tuple[TextSpan, ...]


def render_chat(
    messages: Iterable[dict[str, Json]], *, system: str | None = None, tools: str | None = None
) -> RenderedChat:
    """Render the messages of an SFT record (`role`, `content`, `loss_mask`) as ChatML.

    Args:
        messages: in order; a null content is an empty one.
        system: the record's system text, None = no system message of its own.
        tools: JSON text of the tool definitions.
    """
    pieces: list[str] = []
    spans: list[TextSpan] = []
    length = 0
    for message in [*_system_message(system, tools), *messages]:
        header = f"{TURN_START}{message['role']}\n"
        body = f"{message['content'] or ''}{TURN_END}"
        start = length + len(header)
        length = start + len(body) + 1
        spans.append(TextSpan(start=start, end=length - 1, trained=bool(message["loss_mask"])))
        pieces += [header, body, "\n"]
    return RenderedChat(text="".join(pieces), spans=tuple(spans))


def _system_message(system: str | None, tools: str | None) -> list[dict[str, Json]]:
    parts = [system] if system is not None else []
    if tools is not None:
        parts.append(f"# Tools\n{tools}")
    if not parts:
        return []
    return [{"role": "system", "content": "\n\n".join(parts), "loss_mask": False}]


MarkSet: TypeAlias = tuple[str, str, str, str]  # around the numbers of openings and of closings
TextRange: TypeAlias = tuple[int, int]  # from where to where in a text
_MARK_SETS: Final[tuple[MarkSet, ...]] = tuple(
    (chr(first), chr(first + 1), chr(first + 2), chr(first + 3))
    for first in range(0xFDD0, 0xFDF0, 4)  # code points that Unicode keeps free of characters
)


def choose_marks(texts: Sequence[str]) -> MarkSet:
    """Marks that occur in none of the texts."""
    used = {
        one for text in texts if not text.isascii() for one in re.findall("[\ufdd0-\ufdef]", text)
    }
    free = next((marks for marks in _MARK_SETS if used.isdisjoint(marks)), None)
    if free is None:
        raise TemplateError("the chat holds every code point that could mark its messages")
    return free


def mark_text(text: str, number: int, marks: MarkSet) -> str:
    """A text between an opening and a closing mark that carry a number."""
    a, b, c, d = marks
    return f"{a}{number}{b}{text}{c}{number}{d}"


def read_marks(text: str, marks: MarkSet) -> tuple[str, dict[int, TextRange]]:
    """A text without its marks, and the places that were marked once, by their numbers."""
    a, b, c, d = marks
    pieces: list[str] = []
    opened: dict[int, list[int]] = {}
    closed: dict[int, list[int]] = {}
    done = length = 0
    for found in re.finditer(f"{a}([0-9]+){b}|{c}([0-9]+){d}", text):
        pieces.append(text[done : found.start()])
        length += found.start() - done
        done = found.end()
        table, number = (opened, found[1]) if found[1] else (closed, found[2])
        table.setdefault(int(number), []).append(length)
    pieces.append(text[done:])
    places = {
        number: (starts[0], closed[number][0])
        for number, starts in opened.items()
        if len(starts) == len(closed.get(number, ())) == 1 and starts[0] <= closed[number][0]
    }
    return "".join(pieces), places
