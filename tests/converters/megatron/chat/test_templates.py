"""Chat templates: which one is taken, what it sees, what it may not do, what is trained on."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.chat import template_process
from ingot.converters.megatron.chat.rendering import RenderedChat, TemplateError
from ingot.converters.megatron.chat.templates import (
    BUILTIN,
    ChatTemplate,
    load_template,
    render_chat,
)
from ingot.converters.megatron.tokenizer import TokenizerFile
from ingot.converters.output.worker_pool import end_idle

ROOT = Path(__file__).parents[4]
CONFIG = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": True}
HEADERS = "{% for m in messages %}<|{{ m.role }}|>\n{{ CONTENT }}{{ eos_token }}\n{% endfor %}"
PROMPT = "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
TRIMMING = HEADERS.replace("CONTENT", "m.content | trim") + PROMPT
VERBATIM = HEADERS.replace("CONTENT", "m['content']") + PROMPT


def message(role: str, content: str | None, loss_mask: bool | None = None) -> dict[str, Any]:
    trained = role == "assistant" if loss_mask is None else loss_mask
    return {"role": role, "content": content, "loss_mask": trained}


CHAT = [
    message("user", "Hi"),
    message("assistant", "Hello"),
    message("user", "1+1?"),
    message("assistant", "2"),
]


def tokenizer(own: str | None = None, **config: Any) -> TokenizerFile:
    return TokenizerFile(
        given="tokenizer.json",
        path=Path("tokenizer.json"),
        kind="huggingface",
        data=b"",
        sha256="",
        vocabulary=0,
        largest_id=0,
        special={},
        config={**CONFIG, **config},
        chat_template=own,
    )


def template(source: str) -> ChatTemplate:
    return load_template(None, tokenizer(source))


def conversation(
    messages: list[dict[str, Any]], system: str | None = None, tools: str | None = None
) -> dict[str, Any]:
    return {"messages": messages, "system": system, "tools": tools}


def rendered_by(
    loaded: ChatTemplate, messages: list[dict[str, Any]], **given: str | None
) -> RenderedChat:
    (made,) = loaded.render([conversation(messages, **given)])
    if isinstance(made, TemplateError):
        raise made
    return made


def trained(loaded: ChatTemplate, chat: list[dict[str, Any]], **given: Any) -> list[str]:
    rendered = rendered_by(loaded, chat, **given)
    assert all(span.trained for span in rendered.spans)
    return [rendered.text[span.start : span.end] for span in rendered.spans]


def render(source: str, chat: list[dict[str, Any]] = CHAT, **given: Any) -> str:
    return rendered_by(template(source), chat, **given).text


def refused(source: str, chat: list[dict[str, Any]] = CHAT, **given: Any) -> str:
    with pytest.raises(TemplateError) as caught:
        rendered_by(template(source), chat, **given)
    return str(caught.value)


# Which template


def test_without_any_it_is_chatml() -> None:
    loaded = load_template(None, tokenizer())
    assert loaded.name == "chatml"
    assert rendered_by(loaded, CHAT, system="s", tools="[]") == render_chat(
        CHAT, system="s", tools="[]"
    )


@pytest.mark.more
def test_the_tokenizers_own_comes_first() -> None:
    loaded = load_template(None, tokenizer("{{ messages[0].content }}"))
    assert (loaded.name, rendered_by(loaded, CHAT[:1]).text) == ("tokenizer", "Hi")


def test_a_name_is_a_builtin_one() -> None:
    text = rendered_by(load_template("llama3", tokenizer("own")), CHAT[:2], system="Be brief.").text
    header = "<|start_header_id|>{}<|end_header_id|>\n\n{}<|eot_id|>"
    turns = (("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"))
    assert text == "<s>" + "".join(header.format(*turn) for turn in turns)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat.jinja", "{{ messages[0].content }}!"),
        ("tokenizer_config.json", json.dumps({"chat_template": "{{ messages[0].content }}!"})),
        (
            "chat_template.json",
            json.dumps({"chat_template": [{"name": "default", "template": "Hi!"}]}),
        ),
    ],
)
def test_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    loaded = load_template(str(tmp_path / name), tokenizer("own"))
    assert (loaded.name, rendered_by(loaded, CHAT[:1]).text) == (name, "Hi!")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.jinja", "one\n{% if %}", "line 2"),
        ("a.jinja", "{{ 'a' | random }}", "No filter named 'random'"),
        ("a.jinja", "{{ " + "(" * 5000 + " }}", "not a chat template"),
        ("a.jinja", "x" * ((1 << 20) + 1), "longer than"),
        ("a.json", "{", "not JSON"),
        ("a.json", "{}", "holds no chat_template"),
        (
            "a.json",
            '{"chat_template": [{"name": "rag", "template": ""}]}',
            "holds no chat_template",
        ),
    ],
)
def test_what_is_no_template_is_an_error(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConversionError, match=problem) as caught:
        load_template(str(tmp_path / name), tokenizer())
    assert str(tmp_path / name) in caught.value.where


def test_no_such_file_names_the_builtin_ones() -> None:
    with pytest.raises(ConversionError, match=r"llama9: cannot be read.*chatml.*llama2"):
        load_template("llama9", tokenizer())


def test_named_templates_the_one_for_tools_where_there_are_tools() -> None:
    named = [
        {"name": n, "template": f"{n} {{{{ tools }}}}"} for n in ("default", "rag", "tool_use")
    ]
    loaded = load_template(None, tokenizer("default {{ tools }}", chat_template=named))
    assert rendered_by(loaded, CHAT[:1]).text == "default None"
    assert rendered_by(loaded, CHAT[:1], tools="[]").text == "default []"
    assert rendered_by(loaded, CHAT[:1], tools='[{"a": 1}]').text == "tool_use [{'a': 1}]"


def test_sha256_is_that_of_all_that_renders() -> None:
    first, same = (load_template(None, tokenizer("a")) for _ in range(2))
    other = load_template(None, tokenizer("b"))
    eos = load_template(None, tokenizer("a", eos_token="<eos>"))
    assert first.sha256 == same.sha256
    assert len({one.sha256 for one in (first, other, eos, load_template(None, tokenizer()))}) == 4


# What it sees


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ add_bos_token }}", "<s>|</s>||"),
        ("{{ messages | length }}{{ documents }}{{ add_generation_prompt }}", "4NoneFalse"),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "Hi"}'),
        ("{{ ['<é&'] | tojson }}", '["<é&"]'),
        ("{{ strftime_now is defined }}", "False"),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        (
            "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ loop.index }}"
            "{% if loop.index > 2 %}{% break %}{% endif %}{% endfor %}",
            "23",
        ),
        (
            "{% set n = namespace(a=1) %}{% for m in messages %}{% set n.a = n.a + 1 %}{% endfor %}"
            "{{ n.a }}",
            "5",
        ),
        ("{% generation %}x{% endgeneration %}y", "xy"),
        ("{{ messages[1:] | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
    ],
)
def test_what_a_template_sees(source: str, text: str) -> None:
    assert render(source, [{**one, "loss_mask": False} for one in CHAT]) == text


def test_null_is_empty_and_system_comes_first() -> None:
    chat = [message("system", "b"), message("user", None)]
    source = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
    assert render(source, chat, system="a") == "[system:a][system:b][user:]"


@pytest.mark.parametrize("tools", ["{", '{"a": 1}', "[NaN]", "[" * 9999, "1" * 9999])
def test_broken_tools_refuse_the_record(tools: str) -> None:
    assert refused("x", CHAT[:1], tools=tools).startswith("tools is not")


def test_whether_tools_are_looked_at_is_said() -> None:
    assert template("{{ tools }}").takes_tools
    assert not template("{{ messages }}").takes_tools


# What it may not do


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ messages | map(attribute='__class__') | join }}",
        "{{ raise_exception.__globals__ }}",
        "{{ raise_exception | attr('__code__') }}",
        "{{ namespace.__init__ }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ ('{0.__class__}' | attr('format'))(1) }}",
    ],
)
def test_attributes_of_python_show_nothing(source: str) -> None:
    assert render(source, CHAT[:1]) == ""


REFUSED = {
    "attributes of attributes": "{{ ''.__class__.__mro__ }}",
    "changes the record": "{{ messages[0].pop('role') }}",
    "includes a file": "{% include '/etc/passwd' %}",
    "imports a file": "{% import '/etc/passwd' as x %}",
    "opens a file": "{{ open('/etc/passwd') }}",
    "clock": "{{ strftime_now('%Y') }}",
    "shows an address": "{{ range }}",
    "shows another address": "{{ messages | map('length') }}",
    "half a character": "{{ '\\ud800' }}",
    "long text": "{{ 'a' * (1 << 25) }}".replace("(1 << 25)", "33554432"),
    "padded": "{{ 'a' | center(33554432) }}",
    "calls itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "long range": "{% for i in range(10 ** 9) %}{% endfor %}",
}
NEEDS_MEMORY = {
    "text": "{% set n = messages | length * 10 ** 10 %}{{ 'a' * n }}",
    "list": "{% set n = messages | length * 10 ** 10 %}{{ [1] * n }}",
    "center": "{% set n = messages | length * 10 ** 10 %}{{ 'a' | center(n) }}",
    "ljust": "{% set n = messages | length * 10 ** 10 %}{{ 'a'.ljust(n) }}",
    "width": "{{ '%*d' % (messages | length * 2147483647, 1) }}",
    "format": "{{ '{:2147483647}{:2147483647}'.format(messages[0].role, 1) }}",
    "indent": "{{ messages | tojson(indent=2000000000) }}",
    "doubled": "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}"
    "{% endfor %}",
    "captured": "{% set n = namespace(x='ab') %}{% for i in range(99) %}"
    "{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}{% endfor %}",
    "replaced": "{% set n = namespace(x='a') %}{% for i in range(99) %}"
    "{% set n.x = n.x.replace('a', 'aaaaaaaaa') %}{% endfor %}",
}


@pytest.mark.more
@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED.keys())
def test_a_hostile_template_refuses_the_record(source: str) -> None:
    assert refused(source, CHAT[:1]).startswith("the template")


@pytest.mark.more
def test_memory_is_that_of_a_process_and_bounded() -> None:
    """In a process of its own: a peak of children is that of any child it ever had."""
    code = f"import {__name__} as tests; tests.write_peaks()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    peaks = json.loads(done.stdout)
    assert [name for name, (grown, _) in peaks.items() if grown >= 64 << 20] == []
    assert [name for name, (_, child) in peaks.items() if child >= 5 << 29] == []
    assert list(peaks) == list(NEEDS_MEMORY)


def write_peaks() -> None:
    """Write the bytes by which each template made this process grow, and its child's peak."""
    peaks = {}
    for name, source in NEEDS_MEMORY.items():
        before = peak_bytes(resource.RUSAGE_SELF)
        assert "the template" in refused(source, CHAT[:1])
        grown = peak_bytes(resource.RUSAGE_SELF) - before
        end_idle()
        peaks[name] = grown, peak_bytes(resource.RUSAGE_CHILDREN)
    sys.stdout.write(json.dumps(peaks))


def peak_bytes(whose: int) -> int:
    return resource.getrusage(whose).ru_maxrss << 10


ENDLESS = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(50) }}",
    # without a look at signals in between
    "number": "{{ (10 ** (messages | length * 99999999)) > 1 }}",
    "twins": "{% set n = namespace(x=[], y=[]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}"
    "{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renderings have a second or two."""
    monkeypatch.setattr(template_process, "MOST_SECONDS", 2)


@pytest.mark.more
@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS.keys())
@pytest.mark.usefixtures("soon")
def test_an_endless_template_ends_the_build(source: str) -> None:
    loaded = template("{% if messages[0].content == 'loop' %}" + source + "{% endif %}")
    chats = [conversation([message("user", text)]) for text in ("fine", "loop", "fine")]
    with pytest.raises(ConversionError, match=r"needs more than 2 s.*leave .* out") as caught:
        loaded.render(chats, file="a.parquet", first=7)
    assert caught.value.where == "a.parquet, rows 7 to 9"
    assert loaded.render(chats[:1]) == [RenderedChat(text="", spans=())]


@pytest.mark.more
@pytest.mark.usefixtures("soon")
def test_a_template_that_compiles_for_ever_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.jinja"
    file.write_text("{{ 10 ** 999999999 > 1 }}")
    with pytest.raises(ConversionError, match="needs more than 2 s") as caught:
        load_template(str(file), tokenizer())
    assert caught.value.where == str(file)


def test_a_refusal_is_that_of_one_record() -> None:
    loaded = template("{{ raise_exception('no tools') if messages | length > 2 else 'ok' }}")
    with pytest.raises(TemplateError, match="line 1: no tools"):
        rendered_by(loaded, [{**one, "loss_mask": False} for one in CHAT])
    assert rendered_by(loaded, CHAT[:1]).text == "ok"


# What is trained on


@pytest.mark.parametrize("source", [TRIMMING, VERBATIM])
def test_contents_with_their_end_marks(source: str) -> None:
    assert trained(template(source), CHAT, system="s") == ["Hello</s>", "2</s>"]


def test_only_trained_messages() -> None:
    chat = [message("user", "a", True), message("assistant", "b", False), message("user", "c")]
    assert trained(template(VERBATIM), chat) == ["a</s>"]


@pytest.mark.parametrize(
    ("source", "spans"), [(TRIMMING, ["b</s>", "d</s>"]), (VERBATIM, [" b\n</s>", "\n\nd </s>"])]
)
def test_white_space_of_contents(source: str, spans: list[str]) -> None:
    contents = ("user", "\n a "), ("assistant", " b\n"), ("user", " c"), ("assistant", "\n\nd ")
    assert trained(template(source), [message(*one) for one in contents]) == spans


def test_the_same_content_everywhere() -> None:
    chat = [message(role, "</s>\n") for role in ("user", "assistant") * 3]
    assert trained(template(VERBATIM), chat) == ["</s>\n</s>"] * 3


def test_without_generation_prompts_the_content_begins() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} "
        "[/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    )
    assert trained(template(source), CHAT) == ["Hello</s>", "2</s>"]


THINKING = """\
{%- for m in messages %}
{%- set content = m.content %}
{%- if m.role == 'assistant' and not loop.last and '</think>' in content %}
{%- set content = content.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{{- '<|im_start|>' + m.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}"""


def test_thoughts_that_are_cut_off_earlier() -> None:
    thoughts = [
        {**one, "content": f"<think>\nhm\n</think>\n\n{one['content']}"}
        if one["role"] == "assistant"
        else one
        for one in CHAT
    ]
    assert trained(template(THINKING), thoughts) == [
        "Hello<|im_end|>",
        "<think>\nhm\n</think>\n\n2<|im_end|>",
    ]


def test_an_eos_token_behind_the_last_message_alone() -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}"
    )
    assert trained(template(source), CHAT) == ["Hello<|end|>", "2<|end|>\n</s>"]


def test_a_system_text_in_the_first_user_message() -> None:
    source = (
        "{% if messages[0].role == 'system' %}{% set s = messages[0].content ~ '\n' %}"
        "{% set rest = messages[1:] %}{% else %}{% set s = '' %}{% set rest = messages %}"
        "{% endif %}{% for m in rest %}{{ '<' ~ m.role ~ '>' }}{{ s if loop.first else '' }}"
        "{{ m.content ~ '<end>' }}"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    assert trained(template(source), CHAT, system="s") == ["Hello<end>", "2<end>"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "messages[1]"),
        ("{% for m in messages %}{{ m.content | length }}{% endfor %}", "messages[1]"),
        ("{{ messages[0].content }}", "messages[1]"),
        ("{% for m in messages %}{{ m.content | reverse }}{% endfor %}", "messages[1]"),
    ],
)
def test_what_cannot_be_told_is_refused(source: str, problem: str) -> None:
    assert f"the place of {problem} in the text is unclear" in refused(source)


def test_every_mark_in_use_refuses() -> None:
    chat = [message("user", "".join(map(chr, range(0xFDD0, 0xFDF0)))), message("assistant", "a")]
    assert "every code point" in refused(VERBATIM, chat)
    chat[0]["content"] = "\ufdd0\ufdd5"
    assert trained(template(VERBATIM), chat) == ["a</s>"]


GENERATION = (
    "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }};{% endgeneration %}{% else %}{{ m.content }};{% endif %}"
    "{% endfor %}"
)


def test_generation_blocks() -> None:
    assert trained(template(GENERATION), CHAT) == ["Hello;", "2;"]
    chat = [*CHAT[:3], {**CHAT[3], "loss_mask": False}]
    assert trained(template(GENERATION), chat) == ["Hello;"]


def test_generation_blocks_in_a_macro_and_other_roles() -> None:
    source = "{% macro f(x) %}" + GENERATION.replace("messages", "x") + "{% endmacro %}"
    chat = [message("user", "a", True), message("assistant", "b")]
    assert trained(template(source + "{{ f(messages) }}"), chat) == ["a;", "b;"]


def test_generation_blocks_that_cannot_be_told_apart() -> None:
    twice = GENERATION.replace(
        "{{ m.content }};{% endg", "<{% endgeneration %}{% generation %}{{ m.content }};{% endg", 1
    )
    assert trained(template(twice), CHAT) == ["<", "Hello;", "<", "2;"]
    chat = [*CHAT[:3], {**CHAT[3], "loss_mask": False}]
    assert "4 generation blocks for 2 messages" in refused(twice, chat)


PARTS = st.sampled_from(["a", " ", "\n", "</s>", "é", "👍", "<|user|>", "{{"])
TEXTS = st.lists(PARTS, max_size=6).map("".join)


@settings(max_examples=60, deadline=None)
@given(
    turns=st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), TEXTS, st.booleans())),
    system=st.none() | TEXTS,
)
def test_spans_are_where_the_template_put_them(
    turns: list[tuple[str, str, bool]], system: str | None
) -> None:
    """A template without tricks: what it writes is computed here, for any texts."""
    chat = [message(role, text, mask) for role, text, mask in turns if text.strip()]
    rendered = rendered_by(template(VERBATIM), chat, system=system)
    heads = [] if system is None else [message("system", system, False)]
    expected, text = [], ""
    for one in [*heads, *chat]:
        text += f"<|{one['role']}|>\n"
        if one["loss_mask"]:
            expected.append((len(text), len(text + one["content"] + "</s>")))
        text += one["content"] + "</s>\n"
    assert rendered.text == text
    assert [(span.start, span.end) for span in rendered.spans] == expected


def test_a_chat_of_500_turns() -> None:
    chat = [message(role, f"{i} {role}") for i in range(250) for role in ("user", "assistant")]
    spans = trained(template(TRIMMING), chat)
    assert spans == [f"{one['content']}</s>" for one in chat[1::2]]


# The built-in ones


@pytest.mark.parametrize("name", BUILTIN)
def test_builtin_ones_train_on_answers_and_their_ends(name: str) -> None:
    loaded = load_template(name, tokenizer())
    assert loaded.name == name
    rendered = rendered_by(loaded, CHAT, system="Be brief.")
    found = [rendered.text[span.start : span.end] for span in rendered.spans]
    assert [one[: len(two)] for one, two in zip(found, ("Hello", "2"), strict=True)] == [
        "Hello",
        "2",
    ]
    assert len({found[0][5:], found[1][1:]}) == 1
    assert found[0][5:].strip().startswith("<")
    for text in ("Be brief.", "Hi", "1+1?"):
        assert rendered.text.count(text) == 1


@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize("given", [{"tools": "[{}]"}, {"role": "judge"}])
def test_builtin_ones_bend_nothing(name: str, given: dict[str, str]) -> None:
    chat = [message(given.get("role", "user"), "a"), message("assistant", "b")]
    with pytest.raises(TemplateError, match=r"this format"):
        rendered_by(load_template(name, tokenizer()), chat, tools=given.get("tools"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "llama2",
            "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] 1+1? [/INST] 2 </s>",
        ),
        ("mistral", "<s>[INST] S\n\nHi[/INST] Hello</s>[INST] 1+1?[/INST] 2</s>"),
        (
            "zephyr",
            "<|system|>\nS</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello</s>\n<|user|>\n1+1?</s>\n"
            "<|assistant|>\n2</s>\n",
        ),
        ("vicuna", "S USER: Hi ASSISTANT: Hello</s>USER: 1+1? ASSISTANT: 2</s>"),
        (
            "alpaca",
            "S\n\n### Instruction:\nHi\n\n### Response:\nHello</s>\n\n### Instruction:\n1+1?\n\n"
            "### Response:\n2</s>\n\n",
        ),
        (
            "gemma",
            "<s><start_of_turn>user\nS\n\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
            "<start_of_turn>user\n1+1?<end_of_turn>\n<start_of_turn>model\n2<end_of_turn>\n",
        ),
        ("deepseek", "<s>S<｜User｜>Hi<｜Assistant｜>Hello</s><｜User｜>1+1?<｜Assistant｜>2</s>"),
    ],
)
def test_builtin_texts(name: str, text: str) -> None:
    assert rendered_by(load_template(name, tokenizer()), CHAT, system="S").text == text
