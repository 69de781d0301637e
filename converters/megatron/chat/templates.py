"""Load the template that turns a chat into text: the tokenizer's own, a built-in one, or a file.

The built-in ones are well known public formats, written down for training: each says with
`{% generation %}` what the assistant writes, its content and the mark that ends its turn. Contents
are given as they are. A chat that a format has no place for (a role, tools, an order of turns) is
refused.

ChatML is rendered without a template, one by one or all of a table at once. Every message is
`<|im_start|>ROLE`, a line break, the content as it is, `<|im_end|>`, a line break. The record's
`system` comes first as a message of role system; tool definitions stand in that message under a
line `# Tools`, after a blank line where there is a system text. Nothing is stripped, escaped or
added: a marker that stands in a content reads as a marker.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.chat.loss_masks import TrainedSpans
from ingot.converters.megatron.chat.rendering import RenderedChat, TemplateError, TextSpan
from ingot.converters.megatron.chat.template_process import (
    Conversation,
    TemplateRequest,
    TemplateSources,
    ask_process,
)
from ingot.converters.megatron.engines.engine import byte_offsets
from ingot.converters.megatron.tokenizer import TokenizerFile, special_texts
from ingot.converters.rows import Json

CHATML: Final = "chatml"  # rendered byte for byte, without a template

_NO_TOOLS: Final = (
    "{%- if tools %}{{ raise_exception('this format has no place for tools') }}{% endif -%}"
)
_OTHER_ROLE: Final = "{{ raise_exception('this format has no place for the role ' ~ m.role) }}"
_TURNS: Final = """\
{%- if messages and messages[0].role == 'system' %}
{%- set system = messages[0].content %}{% set turns = messages[1:] %}
{%- else %}
{%- set system = none %}{% set turns = messages %}
{%- endif %}
{%- for m in turns %}
{%- if m.role != ('user' if loop.index0 is even else 'assistant') %}
{{- raise_exception('in this format user and assistant take turns, after one system message') }}
{%- endif %}
{%- endfor -%}
"""


_ROLES: Final = "['system', 'user', 'assistant']"


def _marked_roles(
    header: str, end: str, prompt: str, *, begin: str = "", between: str = "", roles: str = _ROLES
) -> str:
    """A format in which every message is a header that names its role, the content, an end mark."""
    return (
        f"{_NO_TOOLS}{begin}"
        f"{{%- for m in messages %}}{{%- if m.role not in {roles} %}}{_OTHER_ROLE}{{% endif -%}}"
        f"{header}"
        "{%- if m.role == 'assistant' -%}"
        f"{{% generation %}}{{{{- m.content -}}}}{end}{{% endgeneration %}}"
        f"{{%- else -%}}{{{{- m.content -}}}}{end}{{%- endif -%}}"
        f"{between}"
        "{%- endfor -%}"
        f"{{%- if add_generation_prompt -%}}{prompt}{{%- endif -%}}"
    )


_ASSISTANT: Final = "{% generation %}{{- m.content -}}{{ eos_token }}{% endgeneration %}"
_SYSTEM_FIRST: Final = (  # the system text, in the first message of the user
    "{%- if loop.first and system is not none -%}{{ system ~ '\n\n' }}{%- endif -%}"
)


def _in_turns(begin: str, user: str, assistant: str, prompt: str = "") -> str:
    """A format in which user and assistant take turns; `prompt` is an expression of Jinja."""
    generation_prompt = (
        f"{{%- if add_generation_prompt -%}}{{{{ {prompt} }}}}{{%- endif -%}}" if prompt else ""
    )
    return (
        f"{_NO_TOOLS}{_TURNS}{begin}{{%- for m in turns %}}{{%- if m.role == 'user' -%}}{user}"
        f"{{%- else -%}}{assistant}{{%- endif -%}}{{%- endfor -%}}{generation_prompt}"
    )


BUILTIN: Final[dict[str, str]] = {
    "alpaca": _in_turns(
        "{{ (system if system is not none else 'Below is an instruction that describes a task. "
        "Write a response that appropriately completes the request.') ~ '\n\n' }}",
        "{{ '### Instruction:\n' ~ m.content ~ '\n\n' }}",
        "{{ '### Response:\n' }}" + _ASSISTANT + "{{ '\n\n' }}",
        "'### Response:\n'",
    ),
    "deepseek": _in_turns(
        "{{ bos_token }}{%- if system is not none -%}{{ system }}{%- endif -%}",
        "{{ '<｜User｜>' ~ m.content }}",
        "{{ '<｜Assistant｜>' }}" + _ASSISTANT,
        "'<｜Assistant｜>'",
    ),
    "gemma": _in_turns(
        "{{ bos_token }}",
        "{{ '<start_of_turn>user\n' }}" + _SYSTEM_FIRST + "{{ m.content ~ '<end_of_turn>\n' }}",
        "{{ '<start_of_turn>model\n' }}"
        "{% generation %}{{ m.content ~ '<end_of_turn>' }}{% endgeneration %}{{ '\n' }}",
        "'<start_of_turn>model\n'",
    ),
    "llama2": _in_turns(
        "",
        "{{ bos_token ~ '[INST] ' }}{%- if loop.first and system is not none -%}"
        "{{ '<<SYS>>\n' ~ system ~ '\n<</SYS>>\n\n' }}{%- endif -%}{{ m.content ~ ' [/INST] ' }}",
        "{% generation %}{{ m.content ~ ' ' ~ eos_token }}{% endgeneration %}",
    ),
    "llama3": _marked_roles(
        "{{ '<|start_header_id|>' ~ ('ipython' if m.role == 'tool' else m.role) "
        "~ '<|end_header_id|>\n\n' }}",
        "{{ '<|eot_id|>' }}",
        "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
        begin="{{ bos_token }}",
        roles="['system', 'user', 'assistant', 'tool']",
    ),
    "mistral": _in_turns(
        "{{ bos_token }}",
        "{{ '[INST] ' }}" + _SYSTEM_FIRST + "{{ m.content ~ '[/INST]' }}",
        "{{ ' ' }}" + _ASSISTANT,
    ),
    "openchat": _in_turns(
        "{{ bos_token }}{%- if system is not none -%}{{ system ~ '<|end_of_turn|>' }}{%- endif -%}",
        "{{ 'GPT4 Correct User: ' ~ m.content ~ '<|end_of_turn|>' }}",
        "{{ 'GPT4 Correct Assistant: ' }}"
        "{% generation %}{{ m.content ~ '<|end_of_turn|>' }}{% endgeneration %}",
        "'GPT4 Correct Assistant:'",
    ),
    "phi3": _marked_roles(
        "{{ '<|' ~ m.role ~ '|>\n' }}",
        "{{ '<|end|>' }}",
        "{{ '<|assistant|>\n' }}",
        between="{{ '\n' }}",
    ),
    "phi4": _marked_roles(
        "{{ '<|im_start|>' ~ m.role ~ '<|im_sep|>' }}",
        "{{ '<|im_end|>' }}",
        "{{ '<|im_start|>assistant<|im_sep|>' }}",
    ),
    "vicuna": _in_turns(
        "{{ (system if system is not none else 'A chat between a curious user and an artificial "
        "intelligence assistant. The assistant gives helpful, detailed, and polite answers to the "
        "user\\'s questions.') ~ ' ' }}",
        "{{ 'USER: ' ~ m.content ~ ' ' }}",
        "{{ 'ASSISTANT: ' }}" + _ASSISTANT,
        "'ASSISTANT:'",
    ),
    "zephyr": _marked_roles(
        "{{ '<|' ~ m.role ~ '|>\n' }}",
        "{{ eos_token }}",
        "{{ '<|assistant|>\n' }}",
        between="{{ '\n' }}",
    ),
}


_RULES: Final = 1  # how records become variables and spans; raised when that changes
_TOGETHER: Final = 64  # conversations that are rendered with one request
_HINT: Final = (
    "give a Jinja template, a tokenizer_config.json, a chat_template.json, or one of "
    + ", ".join(sorted([CHATML, *BUILTIN]))
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTemplate:
    """Renders chats; usable from any thread."""

    name: str  # `chatml` or another built-in one, `tokenizer`, or the name of the file
    sha256: str  # of the template and of everything else that decides what it renders
    takes_tools: bool  # it looks at tool definitions; if not, a record's are left out
    # none = ChatML, made without Jinja
    _sources: TemplateSources = field(repr=False)
    _special: Mapping[str, Json] = field(repr=False)

    @property
    def is_chatml(self) -> bool:
        """Return whether it is the ChatML of ingot, for which no template runs."""
        return not self._sources

    def render_table(
        self, table: pa.RecordBatch
    ) -> tuple[pa.LargeStringArray, TrainedSpans] | None:
        """Render SFT records column by column; None where only `render` can."""
        return render_table(table) if self.is_chatml else None

    def render(
        self, chats: Sequence[Conversation], *, file: str = "", first: int = 0
    ) -> list[RenderedChat | TemplateError]:
        """Render SFT records, the rows of `file` from `first` on; TemplateError is a refused one.

        Raises ConversionError where the template needs too much time or memory.
        """
        if self.is_chatml:
            return [
                chat if isinstance(chat, TemplateError) else render_chat(**chat) for chat in chats
            ]
        rendered: list[RenderedChat | TemplateError] = []
        for start in range(0, len(chats), _TOGETHER):
            batch = chats[start : start + _TOGETHER]
            request = TemplateRequest(sources=self._sources, special=self._special, chats=batch)
            first_row = first + start
            reply = ask_process(
                request, f"{file}, rows {first_row} to {first_row + len(batch) - 1}"
            )
            if isinstance(reply, TemplateError):  # it was compiled before
                raise reply
            rendered += reply.chats
        return rendered


def load_template(template: str | None, loaded: "TokenizerFile") -> ChatTemplate:
    """Return the template of a build."""
    special = _special_tokens(loaded.config)
    if template == CHATML or (template is None and loaded.chat_template is None):
        digest = hashlib.sha256(f"{CHATML} {_RULES}".encode()).hexdigest()
        return ChatTemplate(name=CHATML, sha256=digest, takes_tools=True, _sources={}, _special={})
    if template is None:
        config_value, default = loaded.config.get("chat_template"), loaded.chat_template or ""
        by_name = _select_templates(config_value) if isinstance(config_value, list) else {}
        sources = by_name if by_name.get("default") == default else {"default": default}
        return _compile_template("tokenizer", str(loaded.path), sources, special)
    if template in BUILTIN:
        marks = {"bos_token": "<s>", "eos_token": "</s>", **special}
        return _compile_template(template, template, {"default": BUILTIN[template]}, marks)
    sources, config = _file_sources(Path(template))
    special = {**_special_tokens(config), **special}
    return _compile_template(Path(template).name, template, sources, special)


def _compile_template(
    name: str, source: str, sources: TemplateSources, special: dict[str, Json]
) -> ChatTemplate:
    reply = ask_process(TemplateRequest(sources=sources, special=special), source)
    if isinstance(reply, TemplateError):
        raise ConversionError(source, f"not a chat template: {reply}", _HINT)
    facts = {"rules": _RULES, "sources": sources, "special": special}
    return ChatTemplate(
        name=name,
        sha256=hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        takes_tools=reply.takes_tools,
        _sources=sources,
        _special=special,
    )


def _select_templates(templates: list[Any]) -> TemplateSources:
    pairs = {
        one["name"]: one["template"]
        for one in templates
        if isinstance(one, dict) and isinstance(one.get("template"), str) and "name" in one
    }
    return {name: pairs[name] for name in ("default", "tool_use") if name in pairs}


def _file_sources(path: Path) -> tuple[TemplateSources, dict[str, Json]]:
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
    template = config.get("chat_template") if isinstance(config, dict) else None
    templates = (
        template if isinstance(template, list) else [{"name": "default", "template": template}]
    )
    sources = _select_templates(templates)
    if "default" not in sources:
        raise ConversionError(str(path), "holds no chat_template", _HINT)
    return sources, config


def _special_tokens(config: Mapping[str, Json]) -> dict[str, Json]:
    extra = config.get("extra_special_tokens")
    return special_texts({**config, **(extra if isinstance(extra, dict) else {})})


TURN_START: Final = "<|im_start|>"
TURN_END: Final = "<|im_end|>"


def render_table(table: pa.RecordBatch) -> tuple[pa.LargeStringArray, TrainedSpans] | None:
    """Render SFT records as `render_chat` does, column by column.

    A record without messages, or with a message without a role, gives None.
    """
    text = pa.large_string()
    lists = table["messages"]
    flat, counts = lists.flatten(), lists.value_lengths().fill_null(0).to_numpy()
    role, content = flat.field("role").cast(text), flat.field("content").cast(text).fill_null("")
    if not len(table) or not counts.all() or flat.null_count or role.null_count:
        return None
    pieces = _join(TURN_START, role, "\n", content, f"{TURN_END}\n")
    bounds = np.concatenate([[0], np.cumsum(counts)])
    # The texts of a record's messages lie behind each other already.
    borders = pa.py_buffer(byte_offsets(pieces)[bounds])
    texts = pa.LargeStringArray.from_buffers(len(counts), borders, pieces.buffers()[2])
    system, tools = table["system"].cast(text), _join("# Tools\n", table["tools"].cast(text))
    system_text = pc.coalesce(_join(system, "\n\n", tools), system, tools)
    first = _join(f"{TURN_START}system\n", system_text, f"{TURN_END}\n").fill_null("")
    stops = np.cumsum(pc.utf8_length(pieces).to_numpy())
    before = np.concatenate([[0], stops])[bounds[:-1]] - pc.utf8_length(first).to_numpy()
    starts = stops - pc.utf8_length(content).to_numpy() - len(TURN_END) - 1
    owners = np.repeat(np.arange(len(counts)), counts)
    trained = flat.field("loss_mask").fill_null(False).to_numpy(zero_copy_only=False)
    spans = TrainedSpans(
        owners=owners[trained],
        starts=(starts - before[owners])[trained],
        ends=(stops - 1 - before[owners])[trained],
        closing=trained[bounds[1:] - 1],
    )
    return _join(first, texts) if system_text.null_count < len(system_text) else texts, spans


def _join(*parts: pa.LargeStringArray | str) -> pa.LargeStringArray:
    """The parts of each text joined; null where one is."""
    text = pa.large_string()
    columns = (pa.scalar(part, text) if isinstance(part, str) else part for part in parts)
    return pc.binary_join_element_wise(*columns, pa.scalar("", text))


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
    parts = [system] if system is not None else []
    parts += [f"# Tools\n{tools}"] if tools is not None else []
    first = {"role": "system", "content": "\n\n".join(parts), "loss_mask": False}
    for message in [first, *messages] if parts else messages:
        header = f"{TURN_START}{message['role']}\n"
        body = f"{message['content'] or ''}{TURN_END}"
        start = length + len(header)
        length = start + len(body) + 1
        spans.append(TextSpan(start, length - 1, bool(message["loss_mask"])))
        pieces += (header, body, "\n")
    return RenderedChat(text="".join(pieces), spans=tuple(spans))
