"""Secrets that are known by what is around them are looked for in prompts."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.agent.privacy import Redactor
from ingot.cli.app import app
from tests.conftest import SURE

PROMPT = ("--mapper", "llm", "--model", "x", "--base-url", "http://127.0.0.1:9/v1", "--show-prompt")
LINES = [f"{place:02d}Ab{'kJ7/qR' * 10}" for place in range(20)]
PEM = ["-----BEGIN RSA PRIVATE KEY-----", *LINES, "-----END RSA PRIVATE KEY-----"]


def said(number: int) -> str:
    return f"The river runs past the old mill and nobody counts the boats in summer {number}."


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"question": f"What is {number} plus one?", "answer": said(number), **more}


def table(delimiter: str, name: str, cells: list[str]) -> str:
    lines = [delimiter.join(("question", "answer", name))]
    lines += [
        delimiter.join((f'"What is {n} plus one?"', said(n), cell)) for n, cell in enumerate(cells)
    ]
    return "\n".join(lines)


def lines(rows: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, rows))


NAMED = [f"blackbird{number}x" for number in range(24)]
SETS: dict[str, tuple[str, str, list[str]]] = {
    "a column of a table": ("s.csv", table(",", "password", NAMED), ["blackbird"]),
    "short cells of a table": ("s.csv", table(",", "pwd", ["q7z"] * 24), ["q7z"]),
    "cells in excess": (
        "s.csv",
        table(",", "pwd", ["q7z", "q7z,blackbird", *["q7z"] * 22]),
        ["blackbird"],
    ),
    "a column with tabs": ("s.tsv", table("\t", "api_key", NAMED), ["blackbird"]),
    "phone numbers": ("s.csv", table(",", "phone", ["55501001"] * 24), ["55501001"]),
    "a key in a cell": ("s.csv", table(",", "note", [f'"{chr(10).join(PEM)}"'] * 24), LINES),
    "a key over rows": ("s.txt", "\n".join([said(1), *PEM, said(2), said(3)]), LINES),
    "a key in a list": ("s.jsonl", lines([row(n, lines=PEM) for n in range(24)]), LINES),
    "a range of numbers": (
        "s.jsonl",
        lines([row(n, passcode=100_003 + n * 7919) for n in range(24)]),
        ["100003", "282140"],
    ),
    "an object": (
        "s.jsonl",
        lines([row(n, password={"value": NAMED[n]}) for n in range(24)]),
        ["blackbird"],
    ),
    "in another column too": (
        "s.jsonl",
        lines([row(n, password=NAMED[n], note=f"my word: {NAMED[n]}!") for n in range(24)]),
        ["blackbird"],
    ),
    "a key that is a secret elsewhere": (
        "s.jsonl",
        lines([row(n, password=NAMED[n], by={NAMED[n]: said(n), "note": "x"}) for n in range(24)]),
        ["blackbird"],
    ),
    "a long value": (
        "s.jsonl",
        lines([row(n, t=f"password={'kq7' * 99}") for n in range(9)]),
        ["kq7"],
    ),
    "a speaker of transcripts": (
        "s.jsonl",
        lines([{"text": f"User 13800138012: {said(n)}\nBot: {said(n + 1)}"} for n in range(24)]),
        ["13800138012"],
    ),
    "a speaker": (
        "s.jsonl",
        lines(
            [
                {
                    "turns": [
                        {"from": "user13800138012", "value": said(n)},
                        {"from": "gpt", "value": "x"},
                    ]
                }
                for n in range(24)
            ]
        ),
        ["13800138012"],
    ),
}


@pytest.mark.parametrize("share", ["redacted", "none"])
@pytest.mark.parametrize("name", SETS)
def test_no_secret_is_in_a_prompt(tmp_path: Path, name: str, share: str) -> None:
    file, text, needles = SETS[name]
    (tmp_path / file).write_text(text)
    for tokens in ("8000", "2000"):
        words = ("map", str(tmp_path / file), *PROMPT, "--share-values", share)
        ran = CliRunner().invoke(app, [*words, "--prompt-tokens", tokens])
        assert ran.exit_code == 0
        assert [needle for needle in needles if needle in ran.output] == []


def test_numbers_have_no_range_where_no_value_is_shared(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(lines([row(n, n=431_000 + n) for n in range(24)]))
    ran = CliRunner().invoke(app, ["map", str(tmp_path), *PROMPT, "--share-values", "none"])
    assert "431" not in ran.output


@pytest.mark.more
def test_a_named_secret_is_no_id_and_stands_in_no_report(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.jsonl").write_text(lines([row(n, api_key=NAMED[n]) for n in range(24)]))
    ran = CliRunner().invoke(app, ["map", "s.jsonl"])
    assert "original_id" not in json.loads(ran.stdout).get("meta", {})
    mapping = json.loads(ran.stdout)
    mapping["where"] = [{"path": "api_key", "not_in": NAMED[:1]}]
    (tmp_path / "m.json").write_text(json.dumps(mapping))
    words = ("run", "s.jsonl", "--out", "o", "--mapping", "m.json")
    waits = CliRunner().invoke(app, [*words])
    CliRunner().invoke(app, [*words, *SURE])
    shown = waits.output + (tmp_path / "o.proposal" / "report.md").read_text()
    assert "is not '" in shown
    assert "blackbird" not in shown + (tmp_path / "o" / "report.md").read_text()


def test_an_error_holds_no_secret_but_what_was_typed(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"a": [row(n) for n in range(24)]}))
    mapping = {"version": 2, "source": {"root": "['jo@mail.example.com'][*]"}, "text": "answer"}
    (tmp_path / "m.json").write_text(json.dumps(mapping))
    ran = CliRunner().invoke(app, ["check", str(tmp_path / "m.json"), str(tmp_path / "s.json")])
    assert ran.exit_code
    assert "[email]" in ran.output
    assert "jo@mail" not in ran.output


@pytest.mark.more
def test_many_keys_that_are_addresses_are_numbered_in_linear_time() -> None:
    many = {f"p{n}@mail.example.com": n for n in range(20_000)}
    shown = Redactor("redacted").value(many).json
    assert len(shown) == len(many)
    assert list(shown)[-1] == "[email] 20000"


def test_the_fields_of_a_conversation_hold_no_named_secret(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    (tmp_path / "s.jsonl").write_text(lines([row(n, api_key=NAMED[n]) for n in range(24)]))
    ran = CliRunner().invoke(app, ["chat", str(tmp_path / "s.jsonl")], input="fields\nquit\n")
    assert "a value" in ran.output
    assert "api_key" in ran.output
    assert "blackbird" not in ran.output
