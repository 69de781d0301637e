"""Signs of rows that lose something: found alike in rows and in columns, whatever is walked."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.columns.executor import MappingExecutor
from ingot.converters.mapping.signs import Found, SignFinder
from ingot.converters.rows import Batch
from ingot.converters.sources import open_source
from ingot.converters.sources.formats.arrow import ArrowRows

ROLES = {"path": "role", "map": {"user": "user", "assistant": "assistant", "model": "assistant"}}
PLAIN = {"version": 2, "messages": [{"each": "messages[*]", "role": ROLES, "content": "content"}]}
PARTS = {
    "version": 2,
    "messages": [{"each": "messages[*]", "role": ROLES, "content": "content[*].text"}],
}
GEMINI = {
    "version": 2,
    "messages": [{"each": "contents[*]", "role": ROLES, "content": "parts[*].text"}],
}
STEPS = {
    "version": 2,
    "messages": [
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": {"path": "text", "each": "steps[*]"}},
    ],
}


INNER = {"version": 2, "messages": [{"each": "messages[*]", "role": ROLES, "content": "body.text"}]}


def inner(*bodies: dict[str, Any]) -> dict[str, Any]:
    said = [{"content_type": "text", "text": one} for one in ("Who is there?", "Nobody.")]
    roles = ("user", "assistant")
    bodies = (*said, *bodies)
    return {"messages": [{"role": roles[n % 2], "body": one} for n, one in enumerate(bodies)]}


def found(document: dict[str, Any], batch: Batch, *, columns: bool = True) -> Found:
    mapping = bind(document, ())
    finder = SignFinder(mapping)
    finder.look(batch)
    for part in MappingExecutor(mapping, source_name="", columns=columns).parts(batch):
        finder.add(part)
    return finder.found


def of_rows(rows: list[Any]) -> Batch:
    return Batch(file="a", rows=range(len(rows)), values=rows)


def of_table(rows: list[Any]) -> Batch:
    table = pa.RecordBatch.from_pylist(rows)
    values = ArrowRows(table, table.schema.names)
    return Batch(file="a", rows=range(len(rows)), values=values, table=table)


def talk(answer: Any, **beside: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "Who is there?"}, {"role": "assistant", "content": answer}]
    return {"messages": [said[0], {**said[1], **beside}]}


def parts(*blocks: dict[str, Any]) -> dict[str, Any]:
    asked = {"role": "user", "content": [{"type": "text", "text": "Who is there?"}]}
    answer = [{"type": "text", "text": "Nobody."}, *blocks]
    return {"messages": [asked, {"role": "assistant", "content": answer}]}


def gemini(*more: dict[str, Any]) -> dict[str, Any]:
    asked = {"role": "user", "parts": [{"text": "Who is there?"}]}
    return {"contents": [asked, {"role": "model", "parts": [{"text": "Nobody."}, *more]}]}


@pytest.mark.parametrize(
    ("document", "row", "what"),
    [
        (PARTS, parts({"type": "tool_use", "id": "t", "name": "look", "input": {}}), "tool_use"),
        (
            PARTS,
            parts({"type": "thinking", "thinking": "Let me see.", "signature": "x"}),
            "thinking",
        ),
        (
            PARTS,
            parts({"type": "tool_result", "content": [{"type": "text", "text": "12"}]}),
            "tool_result",
        ),
        (PARTS, parts({"type": "redacted_thinking", "data": "EmwKAhgB"}), "redacted_thinking"),
        (PARTS, parts({"type": "never_seen_before", "body": "1"}), "never_seen_before"),
        (PARTS, parts({"type": "refusal", "refusal": "I will not."}), "refusal"),
        (PARTS, parts({"toolUse": {"name": "look", "input": {"a": "b"}}}), "toolUse"),
        (PARTS, parts({"type": "text", "text": ""}, {"type": "step-start"}), None),
        (PARTS, parts({"type": "text", "text": "So.", "annotations": [{"url": "x y"}]}), None),
        (PARTS, parts({"type": "reasoning", "id": "rs_1", "summary": []}), None),
        (GEMINI, gemini({"functionCall": {"name": "look", "args": {}}}), "functionCall"),
        (
            GEMINI,
            gemini({"functionResponse": {"name": "look", "response": None}}),
            "functionResponse",
        ),
        (GEMINI, gemini(), None),
        (PLAIN, talk("Nobody.", tool_calls=[{"function": {"name": "look"}}]), "tool_calls"),
        (PLAIN, talk("Nobody.", function_call={"name": "look"}), "function_call"),
        (PLAIN, talk("Nobody.", reasoning_content="Let me see."), "reasoning_content"),
        (PLAIN, talk("Nobody.", toolInvocations=[{"state": "call"}]), "toolInvocations"),
        (PLAIN, talk("Nobody.", tool_calls=[], refusal=None, audio=None), None),
        (PLAIN, talk("Nobody.", tool_calls="[]", tool_call_id="t1", name="Eve Adams"), None),
        (PLAIN, talk("Nobody.", usage={"model": "some model"}, ts="12 May"), None),
        (PLAIN, {**talk("Nobody."), "tools": [{"name": "look"}]}, "tools"),
        (PLAIN, {**talk("Nobody."), "tool_defs": '[{"name": "look"}]'}, "tool_defs"),
        (PLAIN, {**talk("Nobody."), "tools": [], "toolset": ["a b"]}, None),
        (
            {**PLAIN, "tools": {"path": "tools", "as": "json"}},
            {**talk("Nobody."), "tools": None, "tool_defs": [{"name": "look"}]},
            "tool_defs",
        ),
        (
            {**PLAIN, "tools": {"path": "tools", "as": "json"}},
            {**talk("Nobody."), "tools": [{"name": "see"}], "tool_defs": [{"name": "look"}]},
            None,
        ),
        (STEPS, {"question": "Why?", "steps": [{"text": "So."}, {"call": {"name": "f"}}]}, "call"),
        (INNER, inner({"content_type": "code", "code": "look()"}), "code"),
        (INNER, inner({"content_type": "text", "text": ""}, {"content_type": "pause"}), None),
        (STEPS, {"question": "Why?", "steps": [{"text": "So."}, {"text": "And so."}]}, None),
    ],
)
def test_what_a_mapping_takes_nothing_of_is_counted(
    document: dict[str, Any], row: dict[str, Any], what: str | None
) -> None:
    wanted = {"passed_over": {0: what}} if what else {}
    assert found(document, of_rows([row]), columns=False) == wanted
    assert found(document, of_table([row])) == wanted


def test_a_row_that_gives_no_record_loses_nothing() -> None:
    row = {"messages": [{"role": "user", "content": "Hm?", "tool_calls": [{"name": "look"}]}]}
    assert found(PLAIN, of_rows([row]), columns=False) == {}


@pytest.mark.parametrize(
    ("row", "said", "held"),
    [
        ({"parts": [{"type": "image_url", "image_url": {"url": "x"}}]}, "hello", True),
        ({}, "<image>\nWho is this?", True),
        ({}, "data/mllm/1.jpg\nWho is this?", True),
        ({"image": "scan/1.jpg"}, "Who is this?", True),
        ({"images": [{"path": "https://a.example/1.webp?w=80"}]}, "Who is this?", True),
        ({"clip": "data:audio/wav;base64,UklG"}, "Who is this?", True),
        ({"author": {"avatar_url": "https://a.example/1.png"}}, "Who is this?", False),
        ({"text": "It is in scan/1.jpg, I think."}, "Who is this?", False),
        ({"type": "text"}, "Write an <img> tag as Markdown, please.", True),
        ({}, "![a cat](cats/1.webp) Who is this?", True),
        ({}, "<|AUDIO|>What is said?", True),
        ({}, "<ImageHere> Who is this?", True),
        ({}, "<start_of_image>Who is this?", True),
        ({}, "[image: a b.png] Who is this?", True),
        ({}, f"{'So far, so good. ' * 300}<image/>", True),
        ({}, "A <imagination> without a picture, [images], audio > video.", False),
    ],
)
def test_images_of_messages_are_seen(row: dict[str, Any], said: str, held: bool) -> None:
    whole = {**row, **talk("Nobody.")}
    whole["messages"][0]["content"] = said
    wanted = {"media": {0: ""}} if held else {}
    assert found(PLAIN, of_rows([whole]), columns=False) == wanted
    assert found(PLAIN, of_table([whole])) == wanted


@pytest.mark.parametrize("columns", [False, True])
def test_both_executors_count_the_same_rows(columns: bool) -> None:
    rows = [talk(f"Number {n} is there.") for n in range(100)]
    rows[7]["messages"][0]["content"] = "<image>\nWho is there?"
    rows[40]["image"] = "scan/40.png"
    rows[41]["messages"][1]["refusal"] = "I would rather not."
    rows[60]["messages"][0]["content"] = "Human: Who is there?\nAssistant: Nobody.\nHuman: Why?"
    wanted = {
        "media": {7: "", 40: ""},
        "passed_over": {41: "refusal"},
        "conversations": {60: ""},
    }
    assert found(PLAIN, of_rows(rows), columns=columns) == wanted


THOUGHT, SAID = "Who might be there, and why?", "Nobody is there."
ASKED = {"role": "user", "content": "Who is there?"}
SPEAKERS = {**ROLES, "map": {**ROLES["map"], "thought": "assistant", "hidden": None}}
SPOKEN = {
    "version": 2,
    "messages": [{"each": "messages[*]", "role": SPEAKERS, "content": "content"}],
}
EITHER = {
    "version": 2,
    "messages": [
        {
            "each": "messages[*]",
            "role": ROLES,
            "content": {"any_of": ["content[*].text", "content[*].content", "content"]},
        }
    ],
}


def thinking(*blocks: Any) -> dict[str, Any]:
    asked = {"role": "user", "content": [{**dict.fromkeys(blocks[0], "Why?"), "type": "text"}]}
    return {"messages": [asked, {"role": "assistant", "content": [*blocks]}]}


@pytest.mark.parametrize(
    ("document", "row", "held"),
    [
        (PARTS, parts({"type": "thinking", "text": THOUGHT}), True),
        (PARTS, parts({"type": "thinking", "text": f"<think>{THOUGHT}</think>"}), False),
        (PARTS, parts({"type": "text", "text": THOUGHT}), False),
        (
            EITHER,
            thinking({"type": "reasoning", "text": THOUGHT}, {"type": "text", "text": SAID}),
            True,
        ),
        (
            EITHER,
            thinking({"type": "Thinking", "content": THOUGHT}, {"type": "text", "content": SAID}),
            True,
        ),
        (EITHER, thinking({"type": "reasoning", "text": SAID}), False),
        (GEMINI, gemini({"text": THOUGHT, "thought": True}), True),
        (GEMINI, gemini({"text": THOUGHT, "thought": False}), False),
        (
            SPOKEN,
            {
                "messages": [
                    ASKED,
                    {"role": "thought", "content": THOUGHT},
                    talk(SAID)["messages"][1],
                ]
            },
            True,
        ),
        (
            {
                **SPOKEN,
                "messages": [
                    {
                        **SPOKEN["messages"][0],
                        "role": {**SPEAKERS, "map": {**SPEAKERS["map"], "thought": None}},
                    }
                ],
            },
            {
                "messages": [
                    ASKED,
                    {"role": "thought", "content": THOUGHT},
                    talk(SAID)["messages"][1],
                ]
            },
            False,
        ),
    ],
)
def test_thoughts_that_are_joined_to_answers_are_counted(
    document: dict[str, Any], row: dict[str, Any], held: bool
) -> None:
    wanted = {"thoughts": {0: ""}} if held else {}
    assert found(document, of_rows([row]), columns=False) == wanted
    assert found(document, of_rows([row] * 40)).get("thoughts", {}).keys() == (
        {*range(40)} if held else set()
    )
    assert found(document, of_table([row])) == wanted


def test_fields_that_are_named_for_thoughts_are_looked_at_in_samples() -> None:
    row = {"question": "Why?", "thinking": THOUGHT, "answer": SAID}
    asked = {"role": "user", "content": "question"}
    marked = [{"template": "<think>\n{{thinking}}\n</think>\n"}, "answer"]
    for content, held in ((["thinking", "answer"], True), (marked, False), ("thinking", False)):
        mapping = bind(
            {"version": 2, "messages": [asked, {"role": "assistant", "content": content}]}, ()
        )
        for named in (False, True):
            finder = SignFinder(mapping, named=named)
            finder.look(of_rows([row]))
            for part in MappingExecutor(mapping, source_name="").parts(of_rows([row])):
                finder.add(part)
            assert finder.found == ({"thoughts": {0: ""}} if held and named else {})


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
def test_names_of_media_in_views_of_lists_are_seen(kind: Any, tmp_path: Path) -> None:
    names = pa.array([[], ["scan/1.jpg"], None], kind(pa.string()))
    table = pa.table({"question": ["Why?"] * 3, "answer": ["So."] * 3, "images": names})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    (batch,) = open_source(str(tmp_path / "a.arrow")).batches()
    assert batch.values[1]["images"] == ["scan/1.jpg"]
    messages = [{"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}]
    assert found({"version": 2, "messages": messages}, batch) == {"media": {1: ""}}


def test_documents_have_no_parts_but_blocks_of_images() -> None:
    rows = [
        {"text": "An article of some words.", "image": "a/1.png", "blocks": [{"type": "tool_use"}]},
        {"text": "An article.", "blocks": [{"type": "image", "url": "x"}]},
    ]
    pt = {"version": 2, "text": "text"}
    assert found(pt, of_rows(rows), columns=False) == {"media": {1: ""}}
    assert found(pt, of_table(rows)) == {"media": {1: ""}}
