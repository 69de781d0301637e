"""The process that runs chat templates: one comes with a download and may take any time and memory.

A conversation has so much processor time and memory, and the build ends whose template needs more.
The process imports little, to start quickly.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.chat.rendering import (
    ChatMessage,
    MarkSet,
    RenderedChat,
    SearchedChat,
    SpanSearch,
    TemplateError,
    TextSpan,
    choose_marks,
    read_marks,
)
from ingot.converters.output.worker_pool import (
    Inbox,
    Send,
    WorkerDiedError,
    give_back_process,
    limit_process,
    take_process,
)
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.converters.megatron.chat.template_sandbox import TemplateProgram

TemplateSources: TypeAlias = Mapping[str, str]  # `default`, and perhaps `tool_use`
# `messages`, `system` and `tools` of an SFT record, or what is wrong with it.
Conversation: TypeAlias = dict[str, Json] | TemplateError

MOST_SECONDS: int = 60  # of processor time for one conversation
MEMORY: Final = 2 << 30
_KEPT: Final = 8  # compiled templates
_HINT: Final = "give another chat template, or leave the conversation out"


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateRequest:
    """Templates to be compiled, and conversations to be rendered."""

    sources: TemplateSources
    special: Mapping[str, Json]
    chats: Sequence[Conversation] = ()


class TemplateReply(NamedTuple):
    """What came of a request; TemplateError stands for what the templates refuse."""

    takes_tools: bool  # whether the templates look at tool definitions
    chats: list[RenderedChat | TemplateError]


def ask_process(request: TemplateRequest, source: str) -> TemplateReply | TemplateError:
    """Render conversations in a process; TemplateError where a template cannot be compiled.

    Raises ConversionError, which says `source`, if it needs too much time or memory.
    """
    process = take_process(serve_templates)
    process.send((MOST_SECONDS, request))
    try:
        reply: TemplateReply | TemplateError = process.receive()
    except WorkerDiedError as death:
        process.end()
        problem = (
            f"the chat template needs more than {MOST_SECONDS} s of processor time for a "
            f"conversation, or {MEMORY >> 30} GiB: its process {death.end_text}"
        )
        raise ConversionError(source, problem, _HINT) from None
    give_back_process(serve_templates, process)
    return reply


def serve_templates(inbox: Inbox, send: Send) -> int:
    """Compile and render what the parent asks for until it is gone."""
    for seconds, request in inbox:
        limit_process(memory=MEMORY, seconds=seconds)
        try:
            send(_reply(request, seconds))
        except TemplateError as error:
            send(error)
    return 0


def _reply(request: TemplateRequest, seconds: int) -> TemplateReply:
    programs = _compile_all(request.sources)
    rendered: list[RenderedChat | TemplateError] = []
    for chat in request.chats:
        limit_process(seconds=seconds)
        try:
            rendered.append(_render(programs, request.special, chat))
        except TemplateError as error:
            rendered.append(error)
    takes_tools = any("tools" in program.names for program in programs.values())
    return TemplateReply(takes_tools, rendered)


def _compile_all(sources: TemplateSources) -> "dict[str, TemplateProgram]":
    programs: dict[str, TemplateProgram] = {}
    for part, source in sources.items():
        try:
            programs[part] = _compile(source)
        except TemplateError as error:
            if len(sources) == 1:
                raise
            raise TemplateError(f"{part}, {error}") from error
    return programs


@lru_cache(_KEPT)
def _compile(source: str) -> "TemplateProgram":
    from ingot.converters.megatron.chat.template_sandbox import TemplateProgram

    return TemplateProgram(source)


def _render(
    programs: "Mapping[str, TemplateProgram]",
    special: Mapping[str, Json],
    conversation: Conversation,
) -> RenderedChat:
    if isinstance(conversation, TemplateError):
        raise conversation
    chat, tools = (
        _chat_variables(conversation["messages"], conversation["system"]),
        conversation["tools"],
    )
    parsed = _parse_tools(tools)
    render = _Rendering(
        program=programs.get("tool_use" if parsed else "default", programs["default"]),
        special=special,
        chat=chat,
        tools=parsed,
        chars=sum(len(one["content"]) for one in chat.messages) + len(tools or ""),
    )
    text = render(chat.messages, False)
    return RenderedChat(text=text, spans=_search_spans(render, text, chat))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rendering:
    """One record's template, limits and variables but the messages."""

    program: "TemplateProgram"
    special: Mapping[str, Json]
    chat: SearchedChat
    tools: Json
    chars: int

    def __call__(
        self, messages: Sequence[ChatMessage], prompt: bool, marks: MarkSet | None = None
    ) -> str:
        variables = {
            **self.special,
            "messages": list(messages),
            "tools": self.tools,
            "documents": None,
            "add_generation_prompt": prompt,
        }
        return self.program.run(variables, chars=self.chars, marks=marks)

    def without_eos(self, text: str) -> "_Rendering | None":
        """Return the same with an empty EOS token; None if there is none, or the text holds it."""
        eos = self.special.get("eos_token")
        if not eos or eos in text:
            return None
        return replace(self, special={**self.special, "eos_token": ""})


def _chat_variables(turns: Sequence[dict[str, Json]], system: str | None) -> SearchedChat:
    messages = [{"role": one["role"], "content": one["content"] or ""} for one in turns]
    names = [f"messages[{i}]" for i in range(len(turns))]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
        names.insert(0, "system")
    first = len(messages) - len(turns)
    trained = [i for i, one in enumerate(turns, first) if one["loss_mask"]]
    return SearchedChat(messages=messages, trained=trained, named=names)


def _parse_tools(tools: str | None) -> Json:
    if tools is None:
        return None
    try:
        parsed = json.loads(tools, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"tools is not JSON: {error}") from error
    if not isinstance(parsed, list):
        raise TemplateError("tools is not a list of tool definitions")
    return parsed


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON value")


def _search_spans(render: _Rendering, text: str, chat: SearchedChat) -> tuple[TextSpan, ...]:
    if not chat.trained:
        return ()
    rest, spans = list(chat.trained), list[TextSpan]()
    if render.program.generation:
        spans = _generation_spans(render, text, chat)
        rest = [i for i in rest if chat.messages[i]["role"] != "assistant"]
    if rest:
        search = SpanSearch(
            render=render,
            text=text,
            chat=replace(chat, trained=rest),
            prompts="add_generation_prompt" in render.program.names,
            without_eos=render.without_eos,
        )
        spans += [search.span(number) for number in rest]
    return tuple(sorted(spans, key=lambda span: (span.start, span.end)))


def _generation_spans(render: _Rendering, text: str, chat: SearchedChat) -> list[TextSpan]:
    """The spans of `{% generation %}` blocks: the k-th belongs to the k-th assistant message."""
    marks = choose_marks([text, *(one["content"] for one in chat.messages)])
    clean, ranges = read_marks(render(chat.messages, False, marks), marks)
    if clean != text:
        raise TemplateError("the template changes with marks around its generation blocks")
    trained = frozenset(chat.trained)
    assistants = [i for i, one in enumerate(chat.messages) if one["role"] == "assistant"]
    are_trained = [i in trained for i in assistants]
    if not any(are_trained):
        return []
    if len(ranges) != len(assistants) and not all(are_trained):
        problem = f"{len(ranges)} generation blocks for {len(assistants)} messages of the assistant"
        raise TemplateError(f"{problem}, of which some are not trained")
    trained_ranges = [
        ranges[k] for k in sorted(ranges) if len(ranges) != len(assistants) or are_trained[k]
    ]
    return [
        TextSpan(start=start, end=end, trained=True) for start, end in trained_ranges if start < end
    ]
