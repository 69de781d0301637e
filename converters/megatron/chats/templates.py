"""The template that turns a chat into text: the tokenizer's own, a built-in one, or a file.

What a template sees is what transformers gives it: `messages` (role and content), `tools`,
`documents`, `add_generation_prompt`, and the special tokens of `tokenizer_config.json`. There is no
clock: `strftime_now` is not defined, so that the same records give the same text on any day.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.chats.builtin import BUILTIN, CHATML
from ingot.converters.megatron.chats.marks import Marks, choose_marks, read_marks
from ingot.converters.megatron.chats.render import Rendered, Span, TemplateError, render_chat
from ingot.converters.megatron.chats.spans import Chat, Message, find_spans
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.converters.megatron.chats.program import Program
    from ingot.converters.megatron.tokenizer import TokenizerFile

__all__ = ["ChatTemplate", "TemplateError", "load_template"]

Sources: TypeAlias = dict[str, str]  # `default`, and perhaps `tool_use`
_RULES: Final = 1  # how records become variables and spans; raised when that changes
_HINT: Final = (
    "give a Jinja template, a tokenizer_config.json, a chat_template.json, or one of "
    + ", ".join(sorted([CHATML, *BUILTIN]))
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTemplate:
    """Renders chats; usable from any thread.

    Attributes:
        name: `chatml` or another built-in one, `tokenizer`, or the name of the file.
        sha256: of the template and of everything else that decides what it renders.
        takes_tools: it looks at tool definitions; if not, a record's are left out.
    """

    name: str
    sha256: str
    takes_tools: bool
    _programs: "Mapping[str, Program]" = field(repr=False)  # none = ChatML, made without Jinja
    _special: Mapping[str, Json] = field(repr=False)

    def render(
        self,
        messages: Iterable[dict[str, Json]],
        *,
        system: str | None = None,
        tools: str | None = None,
    ) -> Rendered:
        """Render the messages of an SFT record (`role`, `content`, `loss_mask`).

        Args:
            messages: in order; a null content is an empty one.
            system: the record's system text: a first message of that role.
            tools: JSON text of a list of tool definitions.

        Raises:
            TemplateError: the template refuses this record, or what it trains on cannot be told.
        """
        given = list(messages)
        if not self._programs:
            return render_chat(given, system=system, tools=tools)
        chat = _chat(given, system)
        parsed = _parsed_tools(tools)
        program = self._programs.get("tool_use" if parsed else "default", self._programs["default"])
        render = _Rendering(
            program=program,
            special=self._special,
            chat=chat,
            tools=parsed,
            chars=sum(len(one["content"]) for one in chat.messages) + len(tools or ""),
        )
        text = render(chat.messages, False)
        return Rendered(text=text, spans=_spans(render, text, chat))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rendering:
    """One record's template, limits and variables but the messages."""

    program: "Program"
    special: Mapping[str, Json]
    chat: Chat
    tools: Json
    chars: int

    def __call__(
        self, messages: Sequence[Message], prompt: bool, marks: Marks | None = None
    ) -> str:
        variables = {
            **self.special,
            "messages": list(messages),
            "tools": self.tools,
            "documents": None,
            "add_generation_prompt": prompt,
        }
        return self.program.run(
            variables, messages=len(self.chat.messages), chars=self.chars, marks=marks
        )

    def without_eos(self, text: str) -> "_Rendering | None":
        """The same with an empty EOS token; None if there is none, or the text holds it."""
        eos = self.special.get("eos_token")
        if not eos or eos in text:
            return None
        return replace(self, special={**self.special, "eos_token": ""})


def load_template(given: str | None, loaded: "TokenizerFile") -> ChatTemplate:
    """The template of a build.

    Args:
        given: the name of a built-in one, or a file: a Jinja template, a `tokenizer_config.json` or
            a `chat_template.json`. None = the tokenizer's own, else `chatml`.
        loaded: the tokenizer.

    Raises:
        ConversionError: no such template, or it is not valid; with file and line.
    """
    special = _special_tokens(loaded.config)
    if given is None and loaded.chat_template is None:
        return _chatml()
    if given is None:
        sources = _own_sources(loaded)
        return _template("tokenizer", str(loaded.path), sources, special)
    if given == CHATML:
        return _chatml()
    if given in BUILTIN:
        marks = {"bos_token": "<s>", "eos_token": "</s>", **special}
        return _template(given, given, {"default": BUILTIN[given]}, marks)
    sources, config = _file_sources(Path(given))
    special = {**_special_tokens(config), **special}
    return _template(Path(given).name, given, sources, special)


def _chatml() -> ChatTemplate:
    return ChatTemplate(
        name=CHATML,
        sha256=hashlib.sha256(f"{CHATML} {_RULES}".encode()).hexdigest(),
        takes_tools=True,
        _programs={},
        _special={},
    )


def _template(name: str, where: str, sources: Sources, special: dict[str, Json]) -> ChatTemplate:
    from ingot.converters.megatron.chats.program import Program

    programs: dict[str, Program] = {}
    for part, source in sources.items():
        try:
            programs[part] = Program(source)
        except TemplateError as error:
            place = where if len(sources) == 1 else f"{where}, template {part}"
            raise ConversionError(place, f"not a chat template: {error}", _HINT) from error
    facts = {"rules": _RULES, "sources": sources, "special": special}
    return ChatTemplate(
        name=name,
        sha256=hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        takes_tools=any("tools" in program.names for program in programs.values()),
        _programs=programs,
        _special=special,
    )


def _own_sources(loaded: "TokenizerFile") -> Sources:
    stated = loaded.config.get("chat_template")
    named = _named(stated) if isinstance(stated, list) else {}
    own = loaded.chat_template or ""
    return named if named.get("default") == own else {"default": own}


def _named(stated: list[Any]) -> Sources:
    """Of a list of `{"name", "template"}` those that are used."""
    pairs = {
        one["name"]: one["template"]
        for one in stated
        if isinstance(one, dict) and isinstance(one.get("template"), str) and "name" in one
    }
    return {name: pairs[name] for name in ("default", "tool_use") if name in pairs}


def _file_sources(path: Path) -> tuple[Sources, dict[str, Json]]:
    """The templates of a file, and the configuration that it is."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConversionError(str(path), f"cannot be read: {error.strerror}", _HINT) from error
    except ValueError as error:
        raise ConversionError(str(path), f"not UTF-8 text: {error}", _HINT) from error
    if path.suffix != ".json":
        return {"default": text}, {}
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConversionError(str(path), f"not JSON: {error}", _HINT) from error
    stated = config.get("chat_template") if isinstance(config, dict) else None
    sources = _named([{"name": "default", "template": stated}])
    if isinstance(stated, list):
        sources = _named(stated)
    if "default" not in sources:
        raise ConversionError(str(path), "holds no chat_template", _HINT)
    return sources, config


def _special_tokens(config: Mapping[str, Json]) -> dict[str, Json]:
    """The variables that a `tokenizer_config.json` gives to its template."""
    extra = config.get("extra_special_tokens")
    stated = {**config, **(extra if isinstance(extra, dict) else {})}
    texts = {
        name: token.get("content") if isinstance(token, dict) else token
        for name, token in stated.items()
        if name.endswith("_token")
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _chat(given: Sequence[dict[str, Json]], system: str | None) -> Chat:
    messages = [{"role": one["role"], "content": one["content"] or ""} for one in given]
    named = [f"messages[{i}]" for i in range(len(given))]
    first = 0
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
        named.insert(0, "system")
        first = 1
    trained = [first + i for i, one in enumerate(given) if one["loss_mask"]]
    return Chat(messages=messages, trained=trained, named=named)


def _parsed_tools(tools: str | None) -> Json:
    if tools is None:
        return None
    try:
        parsed = json.loads(tools, parse_constant=_no_json)
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"tools is not JSON: {error}") from error
    if not isinstance(parsed, list):
        raise TemplateError("tools is not a list of tool definitions")
    return parsed


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")


def _spans(render: _Rendering, text: str, chat: Chat) -> tuple[Span, ...]:
    if not chat.trained:
        return ()
    rest, spans = list(chat.trained), []
    if render.program.generation:
        spans = _generated(render, text, chat)
        rest = [i for i in rest if chat.messages[i]["role"] != "assistant"]
    prompts = "add_generation_prompt" in render.program.names
    others = Chat(messages=chat.messages, trained=rest, named=chat.named)
    found = find_spans(render, text, others, prompts=prompts, without_eos=render.without_eos)
    return tuple(sorted([*spans, *found], key=lambda span: (span.start, span.end)))


def _generated(render: _Rendering, text: str, chat: Chat) -> list[Span]:
    """The spans of `{% generation %}` blocks of trained messages: the k-th of the k-th assistant's.

    Raises:
        TemplateError: the blocks cannot be placed, or not told apart where some are not trained.
    """
    marks = choose_marks([text, *(one["content"] for one in chat.messages)])
    clean, places = read_marks(render(chat.messages, False, marks), marks)
    if clean != text:
        raise TemplateError("the template changes with marks around its generation blocks")
    trained = frozenset(chat.trained)
    own = [i for i, one in enumerate(chat.messages) if one["role"] == "assistant"]
    kept = [i in trained for i in own]
    if not any(kept):
        return []
    if len(places) != len(own) and not all(kept):
        problem = f"{len(places)} generation blocks for {len(own)} messages of the assistant"
        raise TemplateError(f"{problem}, of which some are not trained")
    taken = [places[k] for k in sorted(places) if len(places) != len(own) or kept[k]]
    return [Span(start=start, end=end, trained=True) for start, end in taken if start < end]
