"""What is shown of a trial is what the mapping makes of redacted rows, whatever it spells."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Readings
from ingot.agent.judging.trial import shown_report, try_out
from ingot.agent.privacy import DIFFERS, NOT_SHOWN
from ingot.agent.state import Order
from ingot.converters.mapping.bind import read_tree

ROWS = [
    {
        "id": f"r{n}",
        "question": f"What is {n} plus {n}?",
        "answer": f"It is {2 * n}, of course.",
        "password": f"{word}finch",
        "pin_secret": str(7301 + n),
        "email": f"jane.roe{n}@mail.example",
    }
    for n, word in enumerate(("amber", "birch", "cedar", "delta", "ember", "fjord"))
]
NAMES = ("id", "question", "answer", "password", "email")
CSV = (
    ",".join(NAMES)
    + "\n"
    + "".join(",".join(row[k].replace(",", ";") for k in NAMES) + "\n" for row in ROWS)
)
PARTS = ("finch", "inch", "roe0", "roe1", "a.m.b", "7301", "x7301", "AT mail", "6D626572")


def _chat(answer: Any, **more: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "question"}, {"role": "assistant", "content": answer}]
    return {"version": 2, "messages": said, **more}


def _shown(folder: Path, document: dict[str, Any], share: str, name: str) -> tuple[str, int]:
    file = folder / name
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    file.write_text(CSV if name.endswith("csv") else lines)
    order = Order(source=str(file))
    trial = try_out(Readings(location=order.source), order, read_tree(document), where="m", show=6)
    report = shown_report(order, trial, show=6, share=share)
    told = [report.examples, [str(one) for one in report.problems], report.others]
    rejects = [one.found for one in report.rejects]
    return json.dumps([*told, rejects]), report.records


RESPELLED = [
    _chat({"path": "email", "replace": {"@": " AT "}}),
    _chat({"path": "password", "replace": {c: f"{c}." for c in "abcdefghij"}}),
    _chat({"template": "x{{pin_secret}}y"}),
    _chat({"template": "{{pin_secret}}{{pin_secret}}"}),
    _chat({"path": "password", "map": {"zz": "q"}}),
    {
        "version": 2,
        "messages": [
            {"role": "user", "content": "question"},
            {"role": {"split": {"jane": "assistant", "@": "user"}}, "content": "email"},
        ],
    },
]
READ_ANEW = [
    {"version": 2, "source": {"format": "csv", "delimiter": "q"}, "text": "$"},
    {"version": 2, "source": {"format": "csv", "columns": list("abcde")}, "text": "d"},
    {"version": 2, "source": {"format": "text"}, "text": "text"},
]


@pytest.mark.parametrize("share", ["redacted", "none"])
@pytest.mark.parametrize("document", RESPELLED)
def test_a_respelled_secret_is_not_shown(
    tmp_path: Path, document: dict[str, Any], share: str
) -> None:
    told, _ = _shown(tmp_path, document, share, "a.jsonl")
    assert not [part for part in PARTS if part in told]


@pytest.mark.parametrize("document", READ_ANEW)
def test_files_read_in_another_way_are_not_shown(tmp_path: Path, document: dict[str, Any]) -> None:
    told, records = _shown(tmp_path, document, "redacted", "a.csv")
    assert not [part for part in PARTS if part in told]
    assert (NOT_SHOWN in told) == (records > 0)


def test_a_condition_on_what_is_hidden_shows_no_record(tmp_path: Path) -> None:
    where = [{"path": "password", "in": ["amberfinch"]}]
    told, records = _shown(tmp_path, _chat("answer", where=where), "redacted", "a.jsonl")
    assert records == 1
    assert DIFFERS in told


def test_nothing_but_types_with_none(tmp_path: Path) -> None:
    digits = {str(digit): "x" * 3**digit for digit in range(8)}
    document = _chat({"path": "pin_secret", "replace": digits})
    told, _ = _shown(tmp_path, document, "none", "a.jsonl")
    assert "xx" not in told
    assert "What is" not in told
    assert "<string>" in told


def test_raw_rows_stay_and_so_do_rows_without_secrets(tmp_path: Path) -> None:
    told, _ = _shown(tmp_path, _chat("email"), "raw", "a.jsonl")
    assert "jane.roe0@mail.example" in told
    told, _ = _shown(tmp_path, _chat("answer"), "redacted", "a.jsonl")
    assert "It is 0, of course." in told
