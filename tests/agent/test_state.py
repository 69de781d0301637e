"""The typed state and its JSON: what earlier versions wrote is read, and written again alike."""

import json
from pathlib import Path

import pytest

from ingot.agent.context import Context
from ingot.agent.session import checked_state, kept_state, open_session
from ingot.agent.state import Order, State
from ingot.converters.errors import ModelError
from ingot.converters.json_yaml import decode, encode

# The channels of runs of c17f53e: waiting, stopped, asked again, looked at, converted; and halted.
KEPT = [
    json.loads(line)
    for line in Path(__file__).with_name("checkpoints.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("channels", KEPT)
def test_a_checkpoint_is_written_as_it_was_read(channels: dict[str, object]) -> None:
    again = encode(decode(State, channels), State)
    full = {key: value for key, value in channels.items() if value != {} and key != "key"}
    assert {key: again[key] for key in full} == full


def test_checkpoints_of_every_kind_are_tried() -> None:
    full = {key for channels in KEPT for key, value in channels.items() if value}
    assert full >= State.__annotations__.keys() - {"messages", "served"}


def test_a_model_that_was_out_of_reach_is_so_after_a_pause() -> None:
    stopped = {"kind": "model", "where": "host", "why": "gone", "hint": "", "fault": "refused"}
    with pytest.raises(ModelError, match="gone"):
        checked_state(decode(State, {"stopped": stopped}))


def test_a_kept_run_is_written_as_it_was_read_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = ({"question": f"What is {n}?", "answer": f"It is {n} and some."} for n in range(9))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    order = Order(source=str(file), out=str(tmp_path / "out"), records="jsonl")
    with open_session(order, Context(), home=tmp_path / "home") as session:
        waiting = session.begin()
    kept = kept_state(order, tmp_path / "home")
    assert kept == waiting
    assert encode(kept, State) == encode(waiting, State)
    with open_session(order, Context(), home=tmp_path / "home") as session:
        assert session.begin() == waiting
        state = session.answer({"decisions": [{"type": "approve"}]})
    assert state["outcome"].status == "done"
