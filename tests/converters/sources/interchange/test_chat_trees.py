"""Chats that are trees: the shown branch, what is left out is counted, what is no tree is bad."""

import gzip
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import SourceError
from ingot.converters.rows import BadRow, Json
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.sample import draw_sample

ROOT = "00000000-0000-4000-8000-000000000000"


def message(key: str, text: str = "Hi", role: str = "user", **facts: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {"id": key, "author": {"role": role}, "content": content, "metadata": facts}


def gpt(leaf: Json, **parents: str | None) -> dict[str, Any]:
    """A chat of ChatGPT: the parent of each node; `root` has no message."""
    nodes = {
        key: {
            "id": key,
            "message": None if key == "root" else message(key),
            "parent": parent,
            "children": [one for one, above in parents.items() if above == key],
        }
        for key, parent in parents.items()
    }
    return {"title": "t", "mapping": nodes, "current_node": leaf, "id": "c"}


def claude(*said: tuple[str, str | None], **more: Any) -> dict[str, Any]:
    messages = [{"uuid": key, "parent_message_uuid": parent, "text": key} for key, parent in said]
    return {"uuid": "c", "name": "", "chat_messages": messages, **more}


def read(path: Path, value: Json) -> tuple[list[Any], list[BadRow]]:
    path.write_text(json.dumps(value), "utf-8")
    source = open_source(str(path))
    assert {file.facts.format for file in source.files} == {"chat_tree"}
    batches = list(source.batches())
    return [v for one in batches for v in one.values], [v for one in batches for v in one.bad]


TREE = gpt("d", root=None, a="root", b="a", c="a", d="c")


def test_the_shown_branch_of_a_tree_of_nodes(tmp_path):
    rows, bad = read(tmp_path / "conversations.json", [TREE, gpt(None)])
    assert bad == []
    assert [one["id"] for one in rows[0]["messages"]] == ["a", "c", "d"]
    assert rows[0]["messages"][0] == {**message("a"), "hidden": False}
    assert (rows[0]["other_messages"], rows[0]["title"], rows[0]["current_node"]) == (1, "t", "d")
    assert "mapping" not in rows[0]
    assert (rows[1]["messages"], rows[1]["other_messages"]) == ([], 0)


def test_hidden_system_and_tool_messages_stay(tmp_path):
    chat = gpt("b", root=None, a="root", b="a")
    chat["mapping"]["a"]["message"] = message(
        "a", "", "system", is_visually_hidden_from_conversation=True
    )
    chat["mapping"]["b"]["message"] = message("b", "84", "tool")
    rows, _ = read(tmp_path / "c.json", chat)  # one chat is a file too
    found = [(one["author"]["role"], one["hidden"]) for one in rows[0]["messages"]]
    assert found == [("system", True), ("tool", False)]


def test_the_shown_branch_of_a_list_of_messages(tmp_path):
    said = [("a", ROOT), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "d")]
    flat = {"uuid": "f", "chat_messages": [{"uuid": "x"}, {"uuid": "y"}]}
    chats = [claude(*said), claude(*said, current_leaf_message_uuid="c"), flat, claude()]
    rows, bad = read(tmp_path / "conversations.json", chats)
    assert bad == []
    found = [[one["uuid"] for one in row["chat_messages"]] for row in rows]
    assert found == [["a", "d", "e"], ["a", "b", "c"], ["x", "y"], []]
    assert [row["other_messages"] for row in rows] == [2, 2, 0, 0]


@pytest.mark.parametrize(
    ("chat", "why"),
    [
        (gpt("b", a="b", b="a"), "follows on itself"),
        (gpt("b", a="gone", b="a"), "no message gone"),
        (gpt("gone", a=None), "no message gone"),
        (gpt(None, a=None), "no `current_node`"),
        (gpt(["a"], a=None), 'no message ["a"]'),
        ({"mapping": {"a": 7}, "current_node": "a"}, "no message a"),
        ({"mapping": {"a": {"message": 7}}, "current_node": "a"}, "a message is 7"),
        (claude(("a", "gone")), "no message gone"),
        (claude(("a", "b"), ("b", "a")), "follows on itself"),
        (claude(("a", None), ("a", None)), "or of two"),
        ({"chat_messages": ["text"]}, "the `uuid` of a message"),
        ({"title": "t"}, "no `mapping`"),
        (["a"], "no `mapping`"),
        (None, "no `mapping`"),
    ],
)
def test_what_is_no_tree_is_a_bad_row(tmp_path, chat, why):
    rows, bad = read(tmp_path / "c.json", [TREE, chat, TREE])
    assert len(rows) == 2
    assert (bad[0].row, bad[0].reason) == (1, "bad_row")
    assert why in bad[0].detail


@pytest.mark.parametrize("spec", [SourceSpec(format="json"), SourceSpec(root="[*]")])
def test_a_mapping_may_read_the_tree_itself(tmp_path, spec):
    (tmp_path / "c.json").write_text(json.dumps([TREE]), "utf-8")
    (batch,) = open_source(str(tmp_path / "c.json"), spec).batches()
    assert list(batch.values) == [TREE]


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": n, "mapping": {"a": "b"}, "parent": None, "message": "m"} for n in range(4)],
        [{"id": n, "meta": TREE, "text": "Some text."} for n in range(4)],
        [{"chat_messages": [{"uuid": "a", "text": "Hi"}]}] * 4,
    ],
)
def test_what_only_resembles_a_tree_is_read_as_json(tmp_path, rows):
    (tmp_path / "c.json").write_text(json.dumps(rows), "utf-8")
    assert open_source(str(tmp_path / "c.json")).files[0].facts.format == "json"


def test_other_files_of_an_export_are_no_rows(tmp_path):
    large = [{"id": n, "rating": "thumbs_up", "content": "{}" * 50} for n in range(9)]
    (tmp_path / "message_feedback.json").write_text(json.dumps(large), "utf-8")
    packed = gzip.compress(json.dumps([TREE] * 9).encode())
    (tmp_path / "conversations-000.json.gz").write_bytes(packed)
    (tmp_path / "conversations-001.json").write_text(json.dumps([TREE] * 9, indent=1), "utf-8")
    source = open_source(str(tmp_path))
    assert [one.name for one in source.files] == [
        "conversations-000.json.gz",
        "conversations-001.json",
    ]
    assert len(draw_sample(source).rows) == 18


def test_a_large_file_is_sampled_all_over(tmp_path):
    chats = [{**TREE, "id": f"c{n}", "title": "x" * 400} for n in range(3000)]
    (tmp_path / "c.json").write_text(json.dumps(chats), "utf-8")
    rows = draw_sample(open_source(str(tmp_path / "c.json")), max_bytes=1 << 20).rows
    found = [int(row.value["id"][1:]) for row in rows]
    assert len(found) == 200
    assert min(found) < 100
    assert max(found) > 2800
    assert all(len(row.value["messages"]) == 3 for row in rows)


def test_damaged_files_end_in_rows_bad_rows_or_an_error(tmp_path):
    chance = random.Random(5)
    whole = json.dumps([TREE, claude(("a", ROOT), ("b", "a")), gpt(None)]).encode()
    for number in range(200):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        del data[chance.choice([len(data), chance.randrange(len(data))]) :]
        path = tmp_path / f"{number}.json"
        path.write_bytes(data)
        with suppress(SourceError):
            for batch in open_source(str(path), SourceSpec(format="chat_tree")).batches():
                assert len(batch.values) + len(batch.bad)
