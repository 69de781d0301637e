"""Texts that are conversations: cut where their speakers are marked, else for a person."""

from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Context
from ingot.agent.judging.policy import review_by_gates
from ingot.agent.proposing.order import Order
from ingot.agent.session import run_once
from ingot.agent.state import State
from tests.agent.documents import document


def told(files: dict[str, str], folder: Path, **order: Any) -> State:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return run_once(Order(source=str(folder), mapper="rules", **order), Context())


def calls(pool: Any, head: str) -> dict[str, str]:
    """Calls with a header whose first line begins alike, and times before the speakers."""
    made = {}
    for number in range(pool.rows):
        lines = [f"{head} {5000 + number}", f"Handled by: Maya  Duration: 00:0{number % 9}:11", ""]
        for turn in range(6):
            said = pool.question(number) if turn % 2 else pool.answer(number + turn)
            name = "CALLER" if turn % 2 else "AGENT"
            lines.append(f"[00:0{turn}:{10 + number}] {name}: {said}")
        made[f"call_{number}.txt"] = "\n".join(lines) + "\n"
    return made


@pytest.mark.parametrize("head", ["Call", "Gespräch Nr."])
def test_a_call_below_a_header_is_cut_at_its_times(head: str, tmp_path: Path, pool: Any) -> None:
    state = told(calls(pool, head), tmp_path / "calls")
    proposal = state["proposal"]
    assert proposal is not None
    assert proposal.decision == "sft"
    assert proposal.mapping
    [message] = proposal.mapping.outer.messages or ()
    split = document(proposal.mapping)["messages"][0]["role"]["split"]
    assert split["\n["] is None
    assert split[f"\n{head} "] is None
    assert {role for role in split.values() if role} == {"user", "assistant"}
    assert message.content is not None
    check = state["check"]
    assert check is not None
    assert check.ok_rows == check.rows == pool.rows
    # The header is left out: a person looks at that.
    assert review_by_gates(state).decision == "person"


def interviews(pool: Any) -> dict[str, str]:
    """Interviews, each by two people of its own: no mark cuts all of them."""
    made = {}
    for number in range(pool.rows):
        one, other = f"Anna{'abcdefghijkl'[number]}", f"Otto{'abcdefghijkl'[number]}"
        turns = (
            f"{one}: {pool.question(number + turn)}\n{other}: {pool.answer(number + turn)}\n"
            for turn in range(4)
        )
        made[f"talk_{number}.txt"] = f"Interview {number} of May\n\n" + "".join(turns)
    return made


@pytest.mark.more
def test_texts_that_are_conversations_are_for_a_person(tmp_path: Path, pool: Any) -> None:
    state = told(interviews(pool), tmp_path / "talks")
    proposal = state["proposal"]
    assert proposal is not None
    assert proposal.decision == "pt"
    assert proposal.confidence <= 0.45
    [why] = [one.why for one in proposal.evidence if one.choice.startswith("transcripts")]
    assert "conversations" in why
    assert "--mode sft" in why
    assert review_by_gates(state).decision == "person"
    asked = told(interviews(pool), tmp_path / "asked", mode="pt")["proposal"]
    assert asked is not None
    assert not [one for one in asked.evidence if one.choice.startswith("transcripts")]


def test_texts_with_names_before_some_lines_are_no_conversations(tmp_path: Path, pool: Any) -> None:
    files = {
        f"n_{number}.txt": f"Note: {pool.answer(number)}\nSource: the archive\n\n"
        + "\n".join(pool.answer(number + place) for place in range(4))
        for number in range(pool.rows)
    }
    proposal = told(files, tmp_path / "notes")["proposal"]
    assert proposal is not None
    assert not [one for one in proposal.evidence if one.choice.startswith("transcripts")]


def test_names_give_roles_whoever_begins_and_a_footer_is_nobodys(mapped: Any, pool: Any) -> None:
    def call(n: int) -> str:
        said = [
            ("Ringer", "This call may be recorded."),
            ("Agent", f"Hello, this is desk {n}, how can I help?"),
            ("Customer", pool.question(n)),
            ("Agent", pool.answer(n)),
        ]
        lines = [f"[00:{n:02}:{k:02}] {who}: {text}" for k, (who, text) in enumerate(said)]
        head = f"Call ID: C-{n}\nQueue: {('red', 'blue')[n % 2]}\n\n"
        return head + "\n".join(lines) + f"\n--- End ---\nNote: score {n}"

    outcome = mapped([{"text": call(n)} for n in range(12)], "sft")
    assert outcome.turns(3) == [
        ("assistant", "Hello, this is desk 3, how can I help?"),
        ("user", pool.question(3)),
        ("assistant", pool.answer(3)),
    ]
    assert outcome.proposal.confidence < 0.9  # who else speaks is left out: a person is asked
