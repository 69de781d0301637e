"""Runs that stop for review and go on elsewhere: kept runs, new processes, changed input."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import RUNS_FILE, Context, state_home
from ingot.agent.proposing.proposal import Proposal, Turn
from ingot.agent.session import open_runs, open_session, run_once
from ingot.agent.state import Order
from ingot.converters.errors import BudgetReached, ConversionError, OutputError
from ingot.converters.json_yaml import encode
from ingot.converters.mapping.bind import read_tree
from ingot.converters.output.commit import stage
from tests.agent.documents import document
from tests.agent.scripted import ScriptedMapper

MAPPING = {
    "version": 2,
    "messages": [
        {"role": "user", "content": "ask"},
        {"role": "assistant", "content": "reply"},
    ],
}
PROPOSAL = Proposal(
    decision="sft", mapping=read_tree(MAPPING), confidence=0.9, reason="because", mapper="scripted"
)
APPROVE = {"decisions": [{"type": "approve"}]}

# What a second process does: it knows the state folder and the order, and has no mapper.
RESUME = """
import json, sys
from ingot.agent.context import Context
from ingot.agent.session import open_session
from ingot.agent.state import Order
with open_session(Order(**json.loads(sys.argv[1])), Context()) as current:
    current.begin()
    assert current.is_waiting()
    state = current.answer({"decisions": [{"type": "approve"}]})
print(state["outcome"].status)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "chat.jsonl"
    rows = ({"ask": f"What is {n}?", "reply": f"It is {n}."} for n in range(5))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def state_folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def order_of(data: Path, **given: Any) -> Order:
    out = str(data.parent / "out")
    return Order(source=str(data), out=out, mapper="scripted", records="jsonl", **given)


def scripted(*answers: Proposal) -> tuple[ScriptedMapper, Context]:
    mapper = ScriptedMapper(answers)
    return mapper, Context(turns={"scripted": mapper})


@pytest.mark.more
def test_a_run_goes_on_in_a_new_process(data: Path, state_folder: Path) -> None:
    _, context = scripted(PROPOSAL)
    with open_session(order_of(data), context, home=state_folder) as current:
        current.begin()
        assert current.is_waiting()
    ran = subprocess.run(
        [sys.executable, "-c", RESUME, json.dumps(encode(order_of(data)))],
        env={**os.environ, "INGOT_HOME": str(state_folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "done\n"
    assert (data.parent / "out" / "manifest.json").exists()


def test_the_same_command_with_yes_approves_what_was_shown(data: Path, state_folder: Path) -> None:
    mapper, context = scripted(PROPOSAL)
    with open_session(order_of(data), context, home=state_folder) as current:
        current.begin()
    with open_session(order_of(data, yes=True), context, home=state_folder) as current:
        assert current.begin()["outcome"].status == "done"
    assert len(mapper.asked) == 1


@pytest.mark.more
def test_the_same_command_without_yes_still_waits(data: Path, state_folder: Path) -> None:
    mapper, context = scripted(PROPOSAL)
    for _ in range(3):
        with open_session(order_of(data), context, home=state_folder) as current:
            current.begin()
            assert current.is_waiting()
    assert len(mapper.asked) == 1
    with open_session(order_of(data), context, home=state_folder) as current:
        current.begin()
        assert current.answer(APPROVE)["outcome"].status == "done"


def test_a_changed_input_or_option_begins_a_new_run(data: Path, state_folder: Path) -> None:
    mapper, context = scripted(PROPOSAL, PROPOSAL, PROPOSAL)
    with open_session(order_of(data), context, home=state_folder) as current:
        current.begin()
    with open_session(order_of(data, language="en"), context, home=state_folder) as current:
        current.begin()
    with data.open("a") as file:
        file.write(json.dumps({"ask": "More?", "reply": "No."}) + "\n")
    other = Context(turns={"scripted": mapper})
    with open_session(order_of(data, language="en"), other, home=state_folder) as current:
        assert current.begin()["sample"].rows == 6
    assert len(mapper.asked) == 3


def test_a_finished_run_is_forgotten(data: Path, state_folder: Path) -> None:
    _, context = scripted(PROPOSAL)
    with open_session(order_of(data, yes=True), context, home=state_folder) as current:
        current.begin()
        current.forget()
    with sqlite3.connect(state_folder / RUNS_FILE) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    connection.close()


def test_a_run_that_another_version_kept_begins_anew(data: Path, state_folder: Path) -> None:
    _, context = scripted(PROPOSAL)
    with open_session(order_of(data), context, home=state_folder) as current:
        current.begin()
    with sqlite3.connect(state_folder / RUNS_FILE) as connection:
        connection.execute("UPDATE runs SET state = ?", (json.dumps({"source": {"of": "old"}}),))
    connection.close()
    mapper, context = scripted(PROPOSAL)
    with open_session(order_of(data), context, home=state_folder) as current:
        current.begin()
        assert current.is_waiting()
    assert len(mapper.asked) == 1


def test_a_run_that_failed_while_converting_goes_on_there(data: Path, state_folder: Path) -> None:
    mapper, context = scripted(PROPOSAL)
    order = order_of(data, yes=True)
    held = stage(data.parent / "out", key="another run", difference=lambda _: "another")
    with (
        held,
        pytest.raises(OutputError, match="wait for it"),
        open_session(order, context, home=state_folder) as current,
    ):
        current.begin()
    with open_session(replace(order, yes=False), context, home=state_folder) as current:
        assert current.begin()["outcome"].status == "done"
    assert len(mapper.asked) == 1


def test_a_run_that_fails_behind_a_pause_asks_again(data: Path, state_folder: Path) -> None:
    """Not what stood in for the answer is reviewed, but the answer."""
    order = Order(source=str(data), out=str(data.parent / "out"), mapper="llm")
    answers: list[Any] = [
        BudgetReached("budget", "used up"),
        ConnectionError("died"),
        Turn(proposal=PROPOSAL, mapper="scripted"),
    ]

    def asked(*_: Any) -> Turn:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    for _ in range(3):
        with open_session(order, Context(turns={"llm": asked}), home=state_folder) as current:
            try:
                state = current.begin()
            except ConnectionError:
                continue
            assert current.is_at_rest() == bool(answers)
    assert document(state["proposal"].mapping)["messages"] == MAPPING["messages"]
    assert not state["turn"].fallback


def test_a_destination_that_is_not_ours_ends_the_run_before_the_mapper_is_asked(
    data: Path, state_folder: Path
) -> None:
    mapper, context = scripted(PROPOSAL)
    (data.parent / "out").mkdir()
    (data.parent / "out" / "precious.txt").write_text("not ingot's")
    with (
        pytest.raises(OutputError, match="did not write"),
        open_session(order_of(data, yes=True), context, home=state_folder) as current,
    ):
        current.begin()
    assert mapper.asked == []


@pytest.mark.more
def test_a_mapping_that_converts_nothing_is_reviewed_anew(data: Path, state_folder: Path) -> None:
    nothing = replace(PROPOSAL, mapping=read_tree({"version": 2, "text": "ask.x"}), decision="pt")
    mapper, context = scripted(*[nothing] * 3, PROPOSAL)
    order = order_of(data)
    with open_session(order, context, home=state_folder) as current:
        current.begin()
        with pytest.raises(ConversionError, match="every row was rejected"):
            current.answer(APPROVE)
    with open_session(order, context, home=state_folder) as current:
        assert document(current.begin()["proposal"].mapping)["messages"] == MAPPING["messages"]
    assert len(mapper.asked) == 4


def test_a_mapping_that_nobody_can_run_is_not_converted(data: Path, state_folder: Path) -> None:
    _, context = scripted(PROPOSAL)
    broken = {"name": "convert", "args": {"mapping": {"version": 2, "text": "a["}}}
    with open_session(order_of(data), context, home=state_folder) as current:
        current.begin()
        edited = current.answer({"decisions": [{"type": "edit", "edited_action": broken}]})
        assert edited["problems"][0].code == "bad_path"
        assert current.answer(APPROVE)["outcome"].status == "unusable"
    assert not (data.parent / "out").exists()


def test_a_dry_run_keeps_nothing(data: Path) -> None:
    _, context = scripted(PROPOSAL)
    assert run_once(order_of(data, dry_run=True), context)["outcome"].status == "dry_run"
    assert not (data.parent / "out").exists()


def test_kept_runs_are_for_their_owner_only(data: Path, state_folder: Path) -> None:
    _, context = scripted(PROPOSAL)
    with open_session(order_of(data), context, home=state_folder) as current:
        current.begin()
        modes = {stat.S_IMODE(file.stat().st_mode) for file in state_folder.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(state_folder.stat().st_mode) == 0o700


def test_kept_runs_hold_no_rows(data: Path, state_folder: Path) -> None:
    _, context = scripted(PROPOSAL)
    with open_session(order_of(data), context, home=state_folder) as current:
        current.begin()
    content = b"".join(file.read_bytes() for file in state_folder.iterdir())
    assert b"scripted" in content
    assert b"It is 3" not in content


@pytest.mark.parametrize("kind", ["file in the way", "not a database"])
def test_a_state_folder_that_cannot_be_used_is_one_clear_error(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "state"
    if kind == "file in the way":
        folder.write_text("a file")
    else:
        folder.mkdir()
        (folder / RUNS_FILE).write_bytes(b"not a database at all" * 100)
    hint = "the file is damaged" if kind == "not a database" else "INGOT_HOME"
    with pytest.raises(OutputError, match=hint), open_runs(folder):
        pass


def test_where_the_state_lies() -> None:
    assert state_home({"INGOT_HOME": "/x/y"}) == Path("/x/y")
    if sys.platform == "linux":
        assert state_home({"XDG_STATE_HOME": "/s"}) == Path("/s/ingot")
        assert state_home({}) == Path.home() / ".local" / "state" / "ingot"
