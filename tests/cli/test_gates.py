"""Gates as the commands show them, and data of which nothing is to be converted."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app

ASKED = [
    f"What should a visitor know about {topic} before the tour of the {place} begins?"
    for topic in ("rivers", "bridges", "clouds", "violins")
    for place in ("harbour", "castle", "old town", "museum", "garden")
]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def write(rows: list[Any]) -> None:
    Path("raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def pairs() -> list[Any]:
    return [
        {"question": asked, "answer": f"That it is number {n} of the sights and free on Mondays."}
        for n, asked in enumerate(ASKED)
    ]


def ingot(*words: object, code: int = 0) -> Any:
    ran = CliRunner().invoke(app, [str(word) for word in words])
    assert ran.exit_code == code, ran.output
    return ran


@pytest.mark.parametrize("mode", ["auto", "sft"])
@pytest.mark.parametrize(
    "rows",
    [
        [{"prompt": asked, "answer": None} for asked in ASKED],
        [{"question": asked, "answer": ""} for asked in ASKED],
        [{"label": n % 3, "score": n / 7} for n in range(20)],
        [{"label": ("positive", "negative")[n % 2], "id": n} for n in range(20)],
    ],
    ids=["prompts", "no answers", "numbers", "labels"],
)
def test_nothing_to_convert_ends_well(rows: list[Any], mode: str) -> None:
    write(rows)
    words = ["--mapper", "rules", "--mode", mode, "--yes", "--json"]
    told = json.loads(ingot("run", "raw.jsonl", "--out", "out", *words).stdout)
    assert (told["status"], told["decision"]) == ("irrelevant", "irrelevant")
    assert {gate["name"] for gate in told["gates"]} == {"confidence"}
    assert json.loads(Path("out/manifest.json").read_text())["decision"] == "irrelevant"


def test_gates_stand_in_every_report() -> None:
    write(pairs())
    words = ("--mapper", "rules", "--json")
    ran = json.loads(ingot("run", "raw.jsonl", "--out", "out", "--yes", *words).stdout)
    mapped = json.loads(ingot("map", "raw.jsonl", *words).stdout)
    checked = json.loads(ingot("check", "out/mapping.json", "raw.jsonl", "--json").stdout)
    for told in (ran, mapped, checked):
        gates = {gate["name"]: gate for gate in told["gates"]}
        assert gates["coverage"]["figure"] == "20/20 (100.0 %)"
        assert gates["coverage"]["limit"] == "at least 98 %"
        assert {gate["state"] for gate in told["gates"]} == {"pass"}
    shown = ingot("check", "out/mapping.json", "raw.jsonl").stdout
    assert "\nGates\n" in shown
    assert "20/20 (100.0 %)" in shown
    assert (
        "| coverage | pass | 20/20 (100.0 %) | at least 98 % |" in Path("out/report.md").read_text()
    )


def test_a_failed_gate_ends_check_and_run_with_1_and_convert_goes_on() -> None:
    write(pairs())
    messages = [
        {"role": "user", "content": ["question", "answer"]},
        {"role": "assistant", "content": "answer"},
    ]
    Path("m.json").write_text(json.dumps({"version": 2, "messages": messages}))
    assert "both_sides" in ingot("check", "m.json", "raw.jsonl", code=1).output
    told = ingot("run", "raw.jsonl", "--mapping", "m.json", "--out", "a", "--yes", code=1).output
    assert "/messages/1/content: both_sides" in told
    assert not Path("a").exists()
    told = ingot("convert", "m.json", "raw.jsonl", "--out", "b").output
    assert "warning: /messages/1/content: both_sides" in told
    assert Path("b/manifest.json").exists()
