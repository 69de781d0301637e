"""A saved mapping against data that has changed since: `check`, `convert` and `run --mapping`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import ingot

ROWS: list[dict[str, Any]] = [
    {
        "id": n,
        "conversations": [
            {"from": "human", "value": f"What is there to say about number {n}?"},
            {"from": "gpt", "value": f"Number {n} is one more than {n - 1}."},
        ],
    }
    for n in range(30)
]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def write(rows: list[Any], name: str = "raw.jsonl") -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def saved() -> dict[str, Any]:
    """The mapping of the data as it was, in m.json."""
    write(ROWS)
    ingot("map", "raw.jsonl", "--mapper", "rules", "-o", "m.json")
    made: dict[str, Any] = json.loads(Path("m.json").read_text())
    return made


def commands(*more: str) -> list[list[str]]:
    return [
        ["check", "m.json", "raw.jsonl", *more],
        ["convert", "m.json", "raw.jsonl", "--out", "out", "--overwrite", *more],
        ["run", "raw.jsonl", "--mapping", "m.json", "--out", "out", "--yes", "--overwrite", *more],
    ]


@pytest.mark.more
def test_the_same_data_does_not_drift(saved: dict[str, Any]) -> None:
    assert saved["provenance"]["shape"]["roles"] == {"conversations[*].from": ["gpt", "human"]}
    for rows in (ROWS, ROWS * 9, [*ROWS, {**ROWS[0], "note": "rare"}]):
        write(rows)
        for command in commands():
            ingot(*command)
    ingot("convert", "m.json", "raw.jsonl", "--out", "few", "--limit", 3, "--records", "jsonl")


@pytest.mark.parametrize("command", [0, 1, 2])
def test_another_shape_stops_and_is_shown(saved: dict[str, Any], command: int) -> None:
    write([{**row, "topic": "numbers"} for row in ROWS])
    ran = ingot(*commands()[command], code=1)
    told = ran.output.split("path   change    before  after")
    assert len(told) == 2
    assert "topic  appeared          string" in told[1]
    assert "--allow-drift" in ran.output
    assert not Path("out").exists()


@pytest.mark.more
@pytest.mark.parametrize("command", [0, 1, 2])
def test_drift_may_be_allowed(saved: dict[str, Any], command: int) -> None:
    write([{**row, "topic": "numbers"} for row in ROWS])
    ingot(*commands()[command], code=1)
    ran = ingot(*commands("--allow-drift")[command])
    assert "topic  appeared" in ran.output


def test_check_tells_drift_as_json(saved: dict[str, Any]) -> None:
    write([{**row, "id": f"n{row['id']}"} for row in ROWS])
    told = json.loads(ingot("check", "m.json", "raw.jsonl", "--json", code=1).stdout)
    change = {"path": "id", "what": "type", "before": "number", "after": "string", "stops": True}
    assert told["check"]["drift"] == [change]
    assert [one["code"] for one in told["problems"]] == ["drift"]
    gates = {one["name"]: one for one in told["gates"]}
    assert gates["shape of the data"]["state"] == "fail"
    assert gates["coverage"]["figure"] == "30/30 (100.0 %)"


def test_a_speaker_without_a_role_stops_and_one_that_the_mapping_names_does_not(
    saved: dict[str, Any],
) -> None:
    turn = {"from": "observer", "value": "Both talk."}
    write([{**row, "conversations": [*row["conversations"], turn]} for row in ROWS])
    told = json.loads(ingot("check", "m.json", "raw.jsonl", "--json", code=1).stdout)
    assert [one["what"] for one in told["check"]["drift"]] == ["role value"]
    assert {one["code"] for one in told["problems"]} == {"unmapped_value", "coverage", "drift"} | (
        {"no_records"} if not told["check"]["records"] else set()
    )
    saved["messages"][0]["role"]["map"]["observer"] = None
    Path("m.json").write_text(json.dumps(saved))
    told = json.loads(ingot("check", "m.json", "raw.jsonl", "--json").stdout)
    assert [one["stops"] for one in told["check"]["drift"]] == [False]


@pytest.mark.more
@pytest.mark.parametrize("kept", [None, {"mapper": "hand"}])
def test_a_mapping_without_a_shape_says_nothing(saved: dict[str, Any], kept: Any) -> None:
    saved.pop("provenance")
    Path("m.json").write_text(json.dumps(saved | ({"provenance": kept} if kept else {})))
    write([{**row, "topic": "numbers"} for row in ROWS])
    for command in commands():
        assert "Changed since" not in ingot(*command).output


def test_a_shape_that_is_none_is_an_invalid_mapping(saved: dict[str, Any]) -> None:
    saved["provenance"]["shape"]["paths"] = [1]
    Path("m.json").write_text(json.dumps(saved))
    assert "provenance" in ingot("check", "m.json", "raw.jsonl", code=2).output


def test_facts_that_were_corrected_by_hand_are_no_drift() -> None:
    lines = [f"{n}|Some words about number {n} and others.|x\n" for n in range(30)]
    Path("raw.csv").write_text("".join(lines))
    ingot("map", "raw.csv", "--mapper", "rules", "--mode", "pt", "-o", "m.json", code=3)
    saved = json.loads(Path("m.json").read_text())
    assert saved["provenance"]["shape"]["facts"] == saved["source"]
    assert "Changed since" not in ingot("check", "m.json", "raw.csv").output
    saved["source"]["columns"] = ["number", "words", "mark"]
    saved["text"] = "words"
    saved.pop("meta", None)
    Path("m.json").write_text(json.dumps(saved))
    assert "Changed since" not in ingot("check", "m.json", "raw.csv").output


def test_figures_and_problems_hold_no_secrets() -> None:
    said = [{"who": "ann@example.org", "text": "Hello there."}, {"who": "it", "text": "Hi."}]
    write([{"turns": said}] * 5)
    role = {"path": "who", "map": {"it": "assistant"}}
    mapping = {"version": 2, "messages": [{"each": "turns[*]", "role": role, "content": "text"}]}
    Path("m.json").write_text(json.dumps(mapping))
    told = json.loads(ingot("check", "m.json", "raw.jsonl", "--json", code=1).stdout)
    assert "example.org" not in json.dumps(told)
    assert "[email] (5 times)" in json.dumps(told["problems"])
    assert "[email] (5 times)" in json.dumps(told["gates"])
    assert "example.org" not in ingot("check", "m.json", "raw.jsonl", code=1).output
