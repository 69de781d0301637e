"""Notes at the lines of mappings: read back as the runner of a job reads them."""

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.agent.review.github_comment import MOST, github_annotations

DOCUMENT = json.loads(Path(__file__).with_name("document.json").read_text("utf-8"))


def runner(line: str) -> tuple[str, dict[str, str], str]:
    """A command as the runner takes it apart: its name, its properties, its message."""
    head, _, data = line.removeprefix("::").partition("::")
    name, _, listed = head.partition(" ")
    pairs = (one.split("=", 1) for one in listed.split(",") if "=" in one)
    return name, {key: unescaped(value) for key, value in pairs}, unescaped(data)


def unescaped(text: str) -> str:
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def review(count: int = 1, level: str = "block", **given: Any) -> dict[str, Any]:
    reason = {"level": level, "rule": "lost_records", "text": "why", "line": 3, **given}
    mapping = {**DOCUMENT["mappings"][1], "path": given.get("path", "mappings/a.json")}
    return {**DOCUMENT, "mappings": [{**mapping, "reasons": [reason] * count, "verdict": level}]}


def test_the_notes_of_a_review():
    assert github_annotations(DOCUMENT) == [
        "::error file=mappings/forum.json,line=14,title=ingot review%3A text_path::"
        "messages 2 content: reads another path",
        "::error file=mappings/forum.json,title=ingot review%3A lost_records::"
        "records: 200 → 180 (-10.0 %25)",
        "::error file=mappings/broken.json,line=4,title=ingot review%3A broken::"
        'no mapping: /messages/0/role: expected one of user, assistant, system, tool, got "human"',
        "::warning file=mappings/forum.json,line=9,title=ingot review%3A loss_mask::"
        "messages 1: trained on from now on",
        "::warning file=mappings/new name.json,title=ingot review%3A not_replayed::"
        "not replayed: no pinned sample beside the mapping, and no source was given",
        "::warning file=mappings/gone.json,title=ingot review%3A removed::the mapping is removed",
    ]


@pytest.mark.parametrize(("level", "name"), [("block", "error"), ("warn", "warning")])
def test_no_more_than_a_step_may_show(level, name):
    found = github_annotations(review(MOST + 7, level))
    assert [runner(line)[0] for line in found] == [name] * MOST
    assert runner(found[-1])[2] == "why (and 7 more: the report has all)"
    assert runner(found[0])[2] == "why"
    assert "more" not in "".join(github_annotations(review(MOST, level)))


def test_what_passes_is_not_told():
    assert github_annotations(review(level="pass")) == []


ATTACKS = ["a\n::error::x", "a\r::set-output name=x::y", "%0A::error::x", "a,line=1", "a::b", "%"]


@pytest.mark.parametrize("attack", [*ATTACKS, "a\u2028::error::x", "\x1b]0;x\x07", "##[error]x"])
def test_hostile_text_stays_in_its_place(attack):
    assert_in_place(attack)


@given(st.text(min_size=1, max_size=40))
def test_any_text_stays_in_its_place(text):
    assert_in_place(text)


def assert_in_place(text: str) -> None:
    (line,) = github_annotations(review(text=text, rule=text, path=text))
    name, properties, _ = runner(line)
    assert name == "error"
    assert list(properties) == ["file", "line", "title"]
    assert properties["line"] == "3"
    assert [c for c in line if unicodedata.category(c)[0] == "C"] == []
    assert "##[" not in line
    assert not re.search(r"%(?!25|3A|2C)", line)


def test_a_long_text_is_cut_and_secrets_are_not_told():
    (line,) = github_annotations(
        review(text="write to canary.bird@secret-host.example " + "x" * 5000)
    )
    assert "canary" not in line
    assert len(line) < 1200
    assert line.endswith("characters)")


def test_a_name_reaches_github_as_it_is():
    (line,) = github_annotations(review(path="a:b,c%d é.json"))
    assert runner(line)[1]["file"] == "a:b,c%d é.json"
