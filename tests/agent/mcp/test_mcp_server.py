"""`ingot mcp` as a process, and the client of the SDK: what it does, and what it does not do."""

import asyncio
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.mcp.confined_folder import MOST_ANSWER
from ingot.agent.privacy.redaction import clean_text
from ingot.converters.records import read_records
from tests.agent.mcp.conftest import SECRET, Talk, talk, write_rows
from tests.command_line import ingot
from tests.conftest import SURE

MCPError = pytest.importorskip("mcp", reason="the extra `mcp` is not installed").MCPError
SOURCE, UNSURE = "data/qa.jsonl", "data/unsure.jsonl"
TOOLS = {
    *("inspect_source", "propose_mapping", "edit_mapping", "check_mapping"),
    *("preview_records", "convert", "lake_status", "review_change"),
}


def texts(value: Any) -> Iterator[str]:
    """Every text of a document, its keys too."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


@pytest.mark.more
def test_a_client_goes_from_a_source_to_records(root: Path) -> None:
    async def said(tool: Talk) -> None:
        assert {one.name for one in (await tool.client.list_tools()).tools} == TOOLS
        seen = await tool("inspect_source", source=SOURCE)
        assert seen["source"]["files"] == 1
        assert {"question", "answer"} <= set(seen["fields"])
        assert any("What is the name of river number" in line for line in seen["data"])
        proposed = await tool("propose_mapping", source=SOURCE)
        assert (proposed["decision"], proposed["needs_a_person"]) == ("sft", [])
        assert [one["content"] for one in proposed["mapping"]["messages"]] == ["question", "answer"]
        checked = await tool("check_mapping", source=SOURCE, mapping=proposed["mapping"])
        assert (checked["check"]["ok_rows"], checked["problems"]) == (40, [])
        shown = await tool("preview_records", source=SOURCE, mapping=proposed["mapping_id"], rows=2)
        assert [pair["record"][0][0] for pair in shown["examples"]] == ["user", "user"]
        done = await tool("convert", source=SOURCE, out="out", mapping=proposed["mapping_id"])
        assert (done["status"], done["folder"]) == ("done", "out")
        assert done["result"]["manifest"]["records"]["written"] == 40
        assert "sft" in await tool.resource("ingot://reports/out")
        assert "mapping language" in (await tool.resource("ingot://mapping/overview")).lower()
        assert "`any_of`" in await tool.resource("ingot://mapping/rows-and-records")
        assert json.loads(await tool.resource("ingot://schemas/mapping"))["$defs"]
        assert "set text" in await tool.resource("ingot://commands")

    talk(root, said)
    ingot("run", f"root/{SOURCE}", "--out", "own", "--records", "jsonl", *SURE, folder=root.parent)
    own, converted = (
        list(read_records(root.parent / one / "records")) for one in ("own", "root/out")
    )
    assert own == converted


@pytest.mark.more
def test_what_needs_a_person_is_refused_and_the_person_can_do_it(root: Path) -> None:
    asked = []

    async def agree(*_: Any) -> Any:
        asked.append(1)
        raise AssertionError("nobody is asked through this door")

    async def said(tool: Talk) -> None:
        unsure = await tool("propose_mapping", source=UNSURE)
        assert "confidence" in unsure["needs_a_person"][0]
        for given in (None, unsure["mapping_id"]):
            left = await tool("convert", source=UNSURE, out="unsure", mapping=given)
            assert left["status"] == "needs_a_person"
            assert "confidence" in left["reasons"][0]
            assert left["proposal"] == "unsure.proposal/"
            assert "ingot run" in left["for_a_person"]
        changed = await tool("edit_mapping", source=SOURCE, changes=['set system "Be kind."'])
        assert changed["mapping"]["system"] == {"literal": "Be kind."}
        assert "not the one that ingot proposes" in changed["needs_a_person"][0]
        assert [changed[name] for name in ("mapper", "confidence")] == ["client", None]
        for given in (
            changed["mapping_id"],
            {**changed["mapping"], "provenance": {"reviewed": True, "mapper": "rules"}},
        ):
            left = await tool("convert", source=SOURCE, out="changed", mapping=given)
            assert "not the one that ingot proposes" in left["reasons"][0]
        await tool.refused("edit_mapping", source=SOURCE, changes=["ok"])
        await tool.refused("edit_mapping", source=SOURCE, changes=["save there.json"])
        await tool.refused("edit_mapping", source=SOURCE, changes=["set text no_such_field"])

    told = talk(root, said, elicitation_callback=agree)
    *_, last = [json.loads(one) for one in told if '"for_a_person": "ingot run' in one]
    assert not asked
    assert not (root / "unsure").exists()
    assert not (root / "changed").exists()
    assert not list(root.rglob("there.json"))
    command = shlex.split(last["for_a_person"])
    ingot(*command[1:], folder=root.parent, code=3)  # nobody is at a terminal
    ingot(*command[1:], *SURE, folder=root.parent)
    records = list(read_records(root / "changed" / "records"))
    assert {one["system"] for one in records} == {"Be kind."}


@pytest.mark.more
def test_a_source_over_the_largest_size_is_refused_before_anything_is_done(root: Path) -> None:
    rows = [{"question": f"Who wrote book {n}?", "answer": "a" * 200} for n in range(6_000)]
    write_rows(root / "large.jsonl", rows)

    async def said(tool: Talk) -> None:
        refused = await tool.refused("convert", source="large.jsonl", out="out")
        size = (root / "large.jsonl").stat().st_size
        assert f"{size:,} bytes, and this server converts at most 1,048,576" in refused
        assert "--max-input" in refused
        assert (await tool("convert", source=SOURCE, out="small"))["status"] == "done"

    talk(root, said, "--max-input", "1")
    assert not list(root.glob("*out*"))


@pytest.mark.more
def test_a_conversion_stops_when_the_client_cancels_it(root: Path) -> None:
    rows = [
        {"question": f"What is the name of river number {n}?", "answer": f"It is river {n}. " * 9}
        for n in range(120_000)
    ]
    write_rows(root / "long.jsonl", rows)

    async def said(tool: Talk) -> None:
        waits = {"source": "long.jsonl", "out": "waits"}
        first = asyncio.create_task(tool("convert", source="long.jsonl", out="long"))
        while not list(root.glob(".long.ingot-*")):  # what it writes until it is finished
            assert not first.done()
            await asyncio.sleep(0.01)
        second = asyncio.create_task(tool("convert", **waits))
        await asyncio.sleep(0.1)
        for task in (first, second):
            task.cancel()
        await asyncio.wait((first, second))
        assert (await tool("convert", source=SOURCE, out="small"))["status"] == "done"

    talk(root, said)
    assert not (root / "long").exists()
    assert not list(root.glob("*waits*"))
    assert (root / "small" / "manifest.json").exists()


@pytest.mark.more
def test_nothing_outside_the_root_is_read_or_written(root: Path) -> None:
    (root / "link.jsonl").symlink_to(root.parent / "outside.jsonl")
    (root / "up").symlink_to(root.parent)
    (root.parent / "report.md").write_text("canary-4410")
    (root.parent / "mapping.json").write_text('{"version": 2, "text": "canary-4410"}')
    before = sorted(root.parent.iterdir())
    places = [
        *("../outside.jsonl", str(root.parent / "outside.jsonl"), "link.jsonl", "up/outside.jsonl"),
        *("data/../../outside.jsonl", "../*.jsonl", "up/*.jsonl", f"file://{root.parent}"),
        *(
            "~/outside.jsonl",
            "http://127.0.0.1:1/x",
            "s3://bucket/x",
            "hf://datasets/x/y",
            "..",
            "",
        ),
        *("zip://x::../outside.jsonl", "sqlite:///x", "/etc/passwd", "data/qa.jsonl\0", "data\nx"),
        *("up/outside.jsonl@1", "iceberg://c/t", "postgresql://u:p@h/d", "filecache::/etc/passwd"),
    ]

    async def said(tool: Talk) -> None:
        for place in places:
            await tool.refused("inspect_source", source=place)
        for place in places[:8]:
            await tool.refused("convert", source=SOURCE, out=place)
            await tool.refused("lake_status", lake=place)
            await tool.refused("check_mapping", source=SOURCE, mapping=place)
            await tool.refused("review_change", old=place, new=place)
        await tool.refused("convert", source=SOURCE, out="up/out")
        await tool.refused("check_mapping", source=SOURCE, mapping="../mapping.json")
        await tool.refused("review_change", old="up/mapping.json", new="up/mapping.json")
        for uri in ("ingot://reports/up", "ingot://reports/..", "ingot://reports/%2e%2e"):
            try:
                await tool.resource(uri)
            except MCPError as error:
                tool.heard.append(str(error))
            else:
                raise AssertionError(uri)

    heard = talk(root, said)
    assert [one for one in heard if "canary-4410" in one or "root:x" in one] == []
    assert sorted(root.parent.iterdir()) == before


@pytest.mark.more
def test_secrets_of_the_data_reach_no_client(root: Path) -> None:
    turns = [
        {"id": n, "password": SECRET,
         "messages": [{"from": "ann.lee@example.com", "value": f"Is it {n} o'clock by now?"},
                      {"from": "bob.ray@example.com", "value": f"It is {n} o'clock, {SECRET}."}]}
        for n in range(40)
    ]  # fmt: skip
    write_rows(root / "data" / "talk.jsonl", turns)
    literal = {"version": 2, "text": {"literal": SECRET}}

    async def said(tool: Talk) -> None:
        for source in (SOURCE, "data/talk.jsonl"):
            await tool("inspect_source", source=source)
            proposed = await tool("propose_mapping", source=source)
            named = {"source": source, "mapping": proposed["mapping_id"]}
            await tool("preview_records", **named, rows=10)
            await tool("check_mapping", **named)
        assert "mapping_id" in proposed["note"]  # the speakers are addresses
        done = await tool("convert", **named, out="out")
        assert done["result"]["manifest"]["records"]["written"] == 40
        await tool("check_mapping", source="data/talk.jsonl", mapping=literal)
        await tool.refused(
            "check_mapping", source="data/talk.jsonl", mapping={**literal, SECRET: SECRET}
        )
        await tool.refused(
            "edit_mapping", source="data/talk.jsonl", changes=[f'role "{SECRET}" user']
        )
        changed = await tool("edit_mapping", **named, changes=[f'set system "{SECRET}"'])
        await tool("review_change", old=proposed["mapping_id"], new=changed["mapping_id"],
                   source="data/talk.jsonl")  # fmt: skip
        await tool.resource("ingot://reports/out")

    hidden = (SECRET, "ann.lee@example.com", "bob.ray@example.com")
    heard = talk(root, said)
    assert [(name, one) for one in heard for name in hidden if name in one] == []
    assert "ann.lee@example.com" in (root / "out" / "mapping.json").read_text()


@pytest.mark.more
def test_hostile_data_and_mappings_start_nothing_and_stay_small(root: Path) -> None:
    names = ["$(touch pwned)", "{{ cycler.__init__.__globals__ }}", "\x1b]0;title\x07", "a" * 9000]
    rows: list[dict[str, Any]] = [
        {**{name: f"`touch pwned` {name} {n}" for name in names},
         "text": "x\u202ey \x1b[31m" + "word " * 20_000,
         **{f"column {m}": f"value {n}" for m in range(700)}}
        for n in range(4)
    ]  # fmt: skip
    write_rows(root / "data" / "hostile.jsonl", rows)
    os.mkfifo(root / "pipe")
    before = (root / SOURCE).read_bytes()
    deep: dict[str, Any] = {}
    for _ in range(80):
        deep = {"first_of": [deep]}
    mappings: list[dict[str, Any]] = [
        {"version": 2, "text": {"template": "{{ ''.__class__.__mro__[1].__subclasses__() }}"}},
        {"version": 2, "text": deep},
        {"version": 2, "source": {"files": ["../../outside.jsonl"]}, "text": "text"},
        {"version": 2, "source": {"query": "ATTACH '/etc/passwd' AS x"}, "text": "text"},
        {"version": 2, "source": {"format": "sqlite"}, "text": "text"},
        {"version": 9}, {}, {"text": 1},
    ]  # fmt: skip

    async def said(tool: Talk) -> None:
        seen = await tool("inspect_source", source="data/hostile.jsonl")
        assert "text" in seen["fields"] or "(+" in str(seen["fields"])
        await tool("propose_mapping", source="data/hostile.jsonl")
        await tool("preview_records", source="data/hostile.jsonl", rows=4, mapping=
                   {"version": 2, "text": "text"})  # fmt: skip
        for mapping in mappings:
            answer = await tool.client.call_tool(
                "check_mapping", {"source": "data/hostile.jsonl", "mapping": mapping}
            )
            tool.heard.append(answer.content[0].text)
        for name in ("mapping-99", "pipe", "data"):
            told = await tool.refused("check_mapping", source=SOURCE, mapping=name)
            assert "neither a mapping_id" in told
        nested: Any = "text"
        for _ in range(100):
            nested = [nested]
        answer = await tool.client.call_tool(
            "check_mapping", {"source": SOURCE, "mapping": {"version": 2, "text": nested}}
        )
        assert answer.is_error
        for out in ("data", "data/qa.jsonl", "data/qa.jsonl/x"):
            await tool.refused("convert", source=SOURCE, out=out)
        for change in ("edit", "quit", "out ../x", "!touch pwned", "set text `touch pwned`"):
            await tool.refused("edit_mapping", source="data/hostile.jsonl", changes=[change])
        await tool("inspect_source", source=SOURCE)  # it still answers

    heard = talk(root, said)
    assert max(map(len, heard)) <= MOST_ANSWER
    assert not any("canary-4410" in one or "subprocess" in one for one in heard)
    answers = [text for one in heard if one[0] == "{" for text in texts(json.loads(one))]
    assert [one for one in answers if clean_text(one) != one] == []
    assert not list(root.parent.rglob("pwned"))
    assert (root / SOURCE).read_bytes() == before


@pytest.mark.more
def test_a_lake_and_a_changed_mapping_are_shown(root: Path) -> None:
    words = ("lake", "run", "root/data", "--out", "root/lake", *SURE)
    ran = ingot(*words, folder=root.parent, code=None)
    assert ran.exit_code in (0, 3), ran.stderr
    old, new = root / "old.json", root / "new.json"
    old.write_text('{"version": 2, "text": "answer"}')
    new.write_text('{"version": 2, "text": "question"}')

    async def said(tool: Talk) -> None:
        lake = await tool("lake_status", lake="lake")
        assert lake["data_sets"] == sum(lake["by_status"].values()) == 2
        assert [one["name"] for one in lake["waiting"]] == ["data--unsure"]
        assert lake["for_a_person"].startswith("ingot lake review ")
        await tool.refused("lake_status", lake="data")
        found = await tool("review_change", old="old.json", new="new.json", source=SOURCE)
        assert (found["verdict"], found["mappings"][0]["class"]) == ("block", "breaking")
        same = await tool("review_change", old="old.json", new="old.json")
        assert same["verdict"] == "warn"  # there is no sample to try them on

    talk(root, said)


@pytest.mark.more
def test_the_budget_of_a_model_holds_for_all_calls(root: Path, chat: Any) -> None:
    """The model is asked within the limit; behind it nothing is proposed, and nothing converted."""
    chat.always = "no answer that can be used"
    model = ["--mapper", "llm", "--model", "m", "--base-url", chat.url, "--llm-max-calls", "2"]

    async def said(tool: Talk) -> None:
        for _ in range(3):
            stopped = await tool("propose_mapping", source=UNSURE)
            assert "calls" in stopped["stopped"]
        assert "calls" in await tool.refused("convert", source=UNSURE, out="out")

    talk(root, said, *model)
    assert len(chat.requests) == 2
    assert not (root / "out").exists()
    assert SECRET not in str(chat.requests)
