"""What stands beside a confidence: the doubts that weigh most, in words, and never more of it."""

import csv
import json
from pathlib import Path

import pytest

from ingot.agent.context import Context
from ingot.agent.proposing.doubts.confidence import strongest_first
from ingot.agent.proposing.doubts.turn_doubts import Doubt
from ingot.agent.proposing.order import Order
from ingot.agent.proposing.proposal import Evidence, confidence_text, doubts_text
from ingot.agent.session import run_once
from ingot.agent.state import State
from tests.agent.documents import document


@pytest.mark.parametrize(
    ("confidence", "shown"),
    [(0.596, "0.59"), (0.8999, "0.89"), (0.57, "0.57"), (0.29, "0.29"), (0.9, "0.90"), (1, "1.00")],
)
def test_a_confidence_is_never_rounded_up(confidence: float, shown: str) -> None:
    assert confidence_text(confidence) == shown


def test_the_two_that_weigh_most_are_shown_each_once() -> None:
    doubts = [
        Doubt("asked again", 1.0, "repeats"),  # weighs little
        Doubt("score", 1.2, "score 0.4"),  # says least, whatever it weighs
        Doubt("markup", 0.5, "tags"),
        Doubt("names", 1.0, "no name"),  # as the fit has it, takes nothing
        Doubt("transcripts", 0.1, "conversations"),  # limits the confidence
    ]
    ordered = strongest_first(doubts)
    assert [one.seen for one in ordered] == [
        *("conversations", "tags", "no name", "repeats", "score 0.4")
    ]
    told = [Evidence(target="decision", choice="sft", why="because")]
    told += [Evidence(target="doubt", choice=one.name, why=one.seen) for one in ordered]
    assert doubts_text(told) == "conversations; tags"
    assert doubts_text([*told[:2], *told[1:]]) == "conversations; tags"
    assert doubts_text(told[:1]) == ""


def proposed(source: Path, mode: str = "auto") -> State:
    order = Order(source=str(source), mapper="rules", mode=mode, dry_run=True)
    return run_once(order, Context())


def test_names_that_say_nothing_are_named_and_markup_is_taken_out(tmp_path: Path) -> None:
    with (tmp_path / "faq.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["Nr", "c2", "c4"])
        for n in range(60):
            steps = f"<p>Open the <b>panel {n}</b>, then press its key and wait.</p>"
            rows.writerow([n, f"How do I repair the display of device number {n}?", steps])
    outcome = proposed(tmp_path / "faq.csv", "sft")["outcome"]
    said = "no name says what is in c2 and c4; 67% of the fields have unfamiliar names"
    assert doubts_text(outcome.evidence) == said
    assert document(outcome.mapping)["messages"][1]["content"] == {"path": "c4", "text_of": "html"}


def test_that_there_is_nothing_to_convert_has_its_doubt_too(tmp_path: Path) -> None:
    asked = "What should a visitor know about hall {} before the tour of the castle begins?"
    rows = [json.dumps({"prompt": asked.format(n), "answer": None}) for n in range(20)]
    (tmp_path / "asked.jsonl").write_text("\n".join(rows))
    outcome = proposed(tmp_path / "asked.jsonl")["outcome"]
    assert outcome.decision == "irrelevant"
    assert "of the characters stand in texts of several words" in doubts_text(outcome.evidence)


TICKET = '{"id": %d, "question": "How do I turn on lamp %d?", "answer": "You press its switch."}'
LINES = [f"The keeper wrote that lamp {n} was lit on every evening of the year." for n in range(30)]
TICKETS = [TICKET % (n, n) for n in range(30)]
PAIRS = '[{"q": "Where is lamp %d?", "a": "It stands behind door %d."}, {"q": "Why?", "a": "So."}]'


@pytest.mark.parametrize(
    ("name", "text", "record"),
    [
        ("t.json", f'{{"tickets": [{", ".join(TICKETS)}]}}', "one element of tickets[*] (30"),
        ("t.json", f"[{', '.join(TICKETS)}]", "one element of a list (30"),
        ("t.jsonl", "\n".join(TICKETS), "one line of JSON (30"),
        ("t.txt", "\n".join(LINES), "one LINE of a file (30"),
        ("t.md", "\n\n".join(LINES), "one whole FILE (1"),
        ("t.csv", "id,text\n" + "\n".join(map('{0[0]},"{0[1]}"'.format, enumerate(LINES))),
         "one row of a table (30"),
        ("t.jsonl", "\n".join(f'{{"qas": {PAIRS % (n, n)}}}' for n in range(30)),
         "one element of qas[*] (60"),
        ("t.jsonl", "\n".join(
            f'{{"talk": {n // 2}, "turn": {n % 2}, "role": "{("user", "assistant")[n % 2]}", '
            f'"text": "This is what was said about lamp {n} that evening."}}' for n in range(40)),
         "all rows with equal talk, sorted by turn (20"),
    ],
)  # fmt: skip
def test_what_a_record_is_made_of_is_said(
    name: str, text: str, record: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    check = proposed(tmp_path / name)["check"]
    assert check
    assert check.record == f"a record is {record} in the sample)"
