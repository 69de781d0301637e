"""Find where a rendered chat holds what the model has to learn.

A template is a black box that turns messages into text, and three questions to it are exact:

- **Marks.** The contents are given between marks that occur nowhere in the chat. If the result
  without the marks is the very text, the marks stand where the contents stand. Templates that strip
  contents, or cut earlier thinking off, need the marks further in (`_list_cuts`).
- **Prompts.** `messages[:i]` with a generation prompt ends where message i begins to be written.
- **Prefixes.** `messages[:i + 1]` ends where message i has ended.

A prompt or a prefix counts if the text begins with it, or if it continues after a content as the
text does there. What lies between the same two roles with the same text between them is asked once
in a chat, so that long chats cost few renderings.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from ingot.converters.errors import IngotError


class TemplateError(IngotError):
    """A template cannot render one record, or what it trains on cannot be told."""


class TextSpan(NamedTuple):
    """Characters `start` to `end` of a rendered text that a message's role produces.

    That is the content and the end marker, which the model has to learn to write; not the header.
    `trained` is the message's loss mask.
    """

    start: int
    end: int
    trained: bool


class RenderedChat(NamedTuple):
    """A rendered chat: the text, and its spans in order.

    ChatML gives one span per message, every other template those of trained messages.
    """

    text: str
    spans: tuple[TextSpan, ...]


MarkSet: TypeAlias = tuple[str, str, str, str]  # around the numbers of openings and of closings
TextRange: TypeAlias = tuple[int, int]  # from where to where in a text
_FREE_POINTS: Final = range(0xFDD0, 0xFDF0, 4)  # which Unicode keeps free of characters


def choose_marks(texts: Sequence[str]) -> MarkSet:
    """Return marks that occur in none of the texts."""
    used = {
        one for text in texts if not text.isascii() for one in re.findall("[\ufdd0-\ufdef]", text)
    }
    for first in _FREE_POINTS:
        marks = (chr(first), chr(first + 1), chr(first + 2), chr(first + 3))
        if used.isdisjoint(marks):
            return marks
    raise TemplateError("the chat holds every code point that could mark its messages")


def mark_text(text: str, number: int, marks: MarkSet) -> str:
    """Return a text between an opening and a closing mark that carry a number."""
    a, b, c, d = marks
    return f"{a}{number}{b}{text}{c}{number}{d}"


def read_marks(text: str, marks: MarkSet) -> tuple[str, dict[int, TextRange]]:
    """Return a text without its marks, and by number the ranges that were marked once."""
    a, b, c, d = marks
    pieces: list[str] = []
    opened: dict[int, list[int]] = {}
    closed: dict[int, list[int]] = {}
    position = length = 0
    for match in re.finditer(f"{a}([0-9]+){b}|{c}([0-9]+){d}", text):
        pieces.append(text[position : match.start()])
        length += match.start() - position
        position = match.end()
        table, number = (opened, match[1]) if match[1] else (closed, match[2])
        table.setdefault(int(number), []).append(length)
    pieces.append(text[position:])
    ranges = {
        number: (starts[0], closed[number][0])
        for number, starts in opened.items()
        if len(starts) == len(closed.get(number, ())) == 1 and starts[0] <= closed[number][0]
    }
    return "".join(pieces), ranges


ChatMessage: TypeAlias = dict[str, Any]  # role and content, both text
RenderChat: TypeAlias = Callable[[Sequence[ChatMessage], bool], str]  # with a generation prompt?
_Cut: TypeAlias = tuple[int, int] | None  # the part of a content that stands between marks
_PlacesByNumber: TypeAlias = dict[int, TextRange]
_BetweenTexts: TypeAlias = tuple[str, str, str, str]  # end or start, both roles, the text

_THOUGHT: Final = re.compile(r".*</think>\s*", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchedChat:
    """A chat to be searched."""

    messages: Sequence[ChatMessage]  # as the template gets them, role and content
    trained: Sequence[int]  # positions of the messages that are trained on, ascending
    named: Sequence[str]  # what each message is called in an error


@dataclass(kw_only=True)
class SpanSearch:
    """Finds spans of trained messages in `text`, which is `render(chat.messages, False)`.

    A span is the content with what the assistant writes before it (behind the generation prompt)
    and the mark that ends the turn; white space behind that mark is the template's. Renderings are
    made once each.
    """

    render: RenderChat
    text: str
    chat: SearchedChat
    prompts: bool  # whether the template looks at `add_generation_prompt`
    without_eos: Callable[[str], RenderChat | None]

    def __post_init__(self) -> None:
        self._messages = self.chat.messages
        self._made: dict[tuple[int, bool], str | None] = {}
        self._known: dict[_BetweenTexts | None, int | None] = {}
        self._marks = choose_marks([self.text, *(one["content"] for one in self._messages)])
        trained = frozenset(self.chat.trained)
        self._places = self._locate(self.render, len(self._messages), False, self.text, trained)

    def span(self, number: int) -> TextSpan:
        """Return the span of a trained message, by its position. Raises TemplateError."""
        marked = self._places.get(number)
        start, end = self._start(number, marked), self._end(number, marked)
        if start is None or end is None or not start <= end <= self._limit(marked):
            name = self.chat.named[number]
            raise TemplateError(f"the place of {name} in the text is unclear")
        return TextSpan(start=start, end=end, trained=True)

    def _limit(self, marked: TextRange | None) -> int:
        later_starts = [
            marks[0] for marks in self._places.values() if marked and marks[0] > marked[1]
        ]
        return min(later_starts, default=len(self.text))

    def _locate(
        self, render: RenderChat, count: int, prompt: bool, text: str, numbers: frozenset[int]
    ) -> _PlacesByNumber:
        """The places that marks show in a rendering, of marks that change nothing else in it."""
        tried: list[list[_Cut]] = []
        located: _PlacesByNumber = {}
        for cuts in _list_cuts(self._messages[:count], numbers):
            if cuts in tried:
                continue
            tried.append(cuts)
            messages = [self._mark(i, self._messages[i], cut) for i, cut in enumerate(cuts)]
            marked_text = _render_or_none(render, messages, prompt)
            if marked_text is None:
                continue
            clean, marked = read_marks(marked_text, self._marks)
            located = marked | located if clean == text else located
            if all(number in located for number in numbers):
                break
        return located

    def _mark(self, number: int, message: ChatMessage, cut: _Cut) -> ChatMessage:
        if cut is None:
            return message
        content, (start, end) = message["content"], cut
        middle = mark_text(content[start:end], number, self._marks)
        return {**message, "content": content[:start] + middle + content[end:]}

    def _start(self, number: int, marked: TextRange | None) -> int | None:
        prompt_end = None
        if self.prompts and self._messages[number]["role"] == "assistant":
            before = self._places.get(number - 1)
            key = self._text_between("start", number - 1, number)
            prompt_end = self._recall(key, before, partial(self._prompt_end, number, before))
        return marked[0] if prompt_end is None and marked else prompt_end

    def _recall(
        self, key: _BetweenTexts | None, base: TextRange | None, search: Callable[[], int | None]
    ) -> int | None:
        """What was found behind such a content before, else what is found now."""
        if key in self._known and base:
            known = self._known[key]
            return None if known is None else base[1] + known
        position = search()
        if key and base:
            self._known[key] = None if position is None else position - base[1]
        return position

    def _prompt_end(self, number: int, before: TextRange | None) -> int | None:
        """Where the generation prompt ends in the text; None = it tells nothing."""
        prompt, without_prompt = self._prefix(number, True), self._prefix(number, False)
        if prompt is None or prompt == without_prompt:
            return None
        if self.text.startswith(prompt):
            return len(prompt)
        following = self._behind(self.render, number - 1, number, True) if before else None
        if before and following and self.text.startswith(following, before[1]):
            return before[1] + len(following)
        return None

    def _end(self, number: int, marked: TextRange | None) -> int | None:
        key = self._text_between("end", number, number + 1)
        return self._recall(key, marked, partial(self._turn_end, number, marked))

    def _turn_end(self, number: int, marked: TextRange | None) -> int | None:
        """Where the mark that ends the turn ends, white space left out; else the content's end."""
        content_end = marked[1] if marked else 0
        prefix = self._prefix(number + 1, False)
        if prefix is not None and self.text.startswith(prefix):
            return max(content_end, len(prefix.rstrip()))
        if marked is None:
            return None
        between = self.text[content_end : self._limit(marked)]
        for render in (self.render, self.without_eos(between)):
            following = self._behind(render, number, number + 1, False) if render else None
            if following is not None and between.startswith(following.rstrip()):
                return content_end + len(following.rstrip())
        return None if self._messages[number]["role"] == "assistant" else content_end

    def _text_between(self, kind: str, first: int, second: int) -> _BetweenTexts | None:
        """What identifies the text between two contents that follow each other."""
        ranges = self._places.get(first), self._places.get(second)
        if ranges[0] is None or ranges[1] is None or ranges[0][1] > ranges[1][0]:
            return None
        first_role, second_role = (self._messages[i]["role"] for i in (first, second))
        return kind, first_role, second_role, self.text[ranges[0][1] : ranges[1][0]]

    def _prefix(self, count: int, prompt: bool) -> str | None:
        """The first messages rendered; None if the template refuses them."""
        if count == len(self._messages) and not prompt:
            return self.text
        if (count, prompt) not in self._made:
            text = _render_or_none(self.render, self._messages[:count], prompt)
            self._made[count, prompt] = text
        return self._made[count, prompt]

    def _behind(self, render: RenderChat, number: int, count: int, prompt: bool) -> str | None:
        """What a rendering of the first messages puts behind a content."""
        text = _render_or_none(render, self._messages[:count], prompt)
        if text is None:
            return None
        marked = self._locate(render, count, prompt, text, frozenset([number])).get(number)
        return text[marked[1] :] if marked else None


def _render_or_none(
    render: RenderChat, messages: Sequence[ChatMessage], prompt: bool
) -> str | None:
    try:
        return render(messages, prompt)
    except TemplateError:
        return None


def _list_cuts(messages: Sequence[ChatMessage], numbers: frozenset[int]) -> list[list[_Cut]]:
    """Ways to put marks, from the whole contents to what a template is least likely to touch."""
    contents = [one["content"] for one in messages]
    whole_contents = [_trim_content(one, lambda _: 0, len) for one in contents]
    inner = [_trim_content(one, _leading_space_end, _trailing_space_start) for one in contents]
    unmarked: list[_Cut] = [None] * len(contents)
    narrower = [
        [
            _trim_content(one, start, end) if i in numbers else other[i]
            for i, one in enumerate(contents)
        ]
        for other in (inner, unmarked)
        for end in (len, _trailing_space_start)
        for start in (lambda _: 0, _leading_space_end, _answer_start)
    ]
    return [whole_contents, *narrower]


def _trim_content(content: str, start: Callable[[str], int], end: Callable[[str], int]) -> _Cut:
    """Part of a content; None = blank, which templates may leave out."""
    cut = start(content), end(content)
    return cut if content[slice(*cut)].strip() else None


def _leading_space_end(content: str) -> int:
    return len(content) - len(content.lstrip())


def _trailing_space_start(content: str) -> int:
    return len(content.rstrip())


def _answer_start(content: str) -> int:
    """Where the last thought has ended, which templates cut off or move."""
    thought = _THOUGHT.match(content)
    return thought.end() if thought else _leading_space_end(content)
