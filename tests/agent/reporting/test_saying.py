"""What a served run says at its end, in every way that one can end."""

import dataclasses
import re
from typing import Any

import pytest

from ingot.agent.reporting.report import beginning_reply, ending_reply, run_status
from ingot.agent.state import Order, Outcome, WrittenWarnings
from ingot.converters.json_yaml import decode

PROBLEM = {"pointer": "/text", "code": "unresolved_path", "expected": "a path", "got": "<b>"}
MANIFEST = {
    "rows": {"read": 3, "converted": 2, "rejected": 1},
    "records": {"written": 2, "rejected": 1},
    "decision": "sft",
    "rejects": {},
    "tokens": None,
    "warnings": {},
}


def outcome(status: str, **more: Any) -> Outcome:
    """An outcome as the report node makes it, as far as it is told."""
    fields = dict.fromkeys(one.name for one in dataclasses.fields(Outcome))
    empty = {"why": "", "evidence": [], "problems": [], "gates": [], "notes": []}
    return decode(Outcome, {**fields, **empty, "status": status, **more})


def result(**more: Any) -> dict[str, Any]:
    given = {"out": "/data/out", "manifest": MANIFEST, "notes": [], **more}
    return {"already_done": False, "first_rejects": [], **given}


@pytest.mark.parametrize("status", ["done", "already_done", "irrelevant"])
def test_counts_and_where_the_files_are(status: str) -> None:
    said = ending_reply(outcome(status, reason="only numbers", result=result(notes=["a note"])))
    assert "read 3, converted 2, rejected 1" in said
    assert "`/data/out`" in said
    assert "- a note" in said


@pytest.mark.parametrize(
    "status",
    ["rejected", "blocked", "waiting", "unmappable", "unusable", "dry_run", "budget", "irrelevant"],
)
def test_why_nothing_was_written(status: str) -> None:
    said = ending_reply(outcome(status, why="<img> [x](http://a.example)", problems=[PROBLEM]))
    assert "Nothing was written." in said
    assert "\\<img\\>" in said
    assert "\\[x\\]" in said
    assert "- /text: unresolved\\_path: expected a path, got \\<b\\>" in said


def test_an_approved_mapping_without_a_folder() -> None:
    assert "No `--out` was named" in ending_reply(outcome("done"))


@pytest.mark.parametrize("ended", ["rejected", "failed", "done"])
def test_the_proposals_reason_is_not_why_a_person_ended_it(ended: str) -> None:
    assert "It looks fine" not in ending_reply(outcome(ended, reason="It looks fine."))


def test_every_status_of_a_run_is_a_sentence() -> None:
    assert run_status.__doc__
    for name in re.findall(r"`(\w+)`", run_status.__doc__):
        assert re.match(r"[A-Z][^*]+\.", ending_reply(outcome(name)))


def test_an_order_as_it_was_understood() -> None:
    def said(**given: Any) -> str:
        return beginning_reply(Order(source="a`b", **given))

    assert "`a´b`" in said()
    assert "is shown and not converted" in said()
    assert "After you approve it, the data is converted into `o`" in said(out="o")
    assert "If it passes its gates" in said(out="o", yes=True)
    assert "dry run" in said(out="o", dry_run=True)


def test_what_is_taken_out_of_html_is_told() -> None:
    warnings = WrittenWarnings(data_uris={"answer": 2000, "body": 1})
    assert list(warnings.texts()) == [
        "2,000 data URIs taken out of the HTML in answer",
        "1 data URI taken out of the HTML in body",
    ]
