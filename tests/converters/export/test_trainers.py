"""What each trainer is given: which chats it takes, which way is chosen, rows, masks."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.export.options import TRAINER_NAMES
from ingot.converters.export.trainers import TRAINERS, survey_records, trainer_rows

META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)
ROLES = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}
TOOLS = '[{"name": "f"}]'


def record(turns: str, *, system: str | None = None, tools: str | None = None) -> dict:
    """`u A` -> a record with an untrained user's message and a trained one of the assistant."""
    messages = [
        {"role": ROLES[one.lower()], "content": f"{one}{place}", "loss_mask": one.isupper()}
        for place, one in enumerate(turns.split())
    ]
    return {"messages": messages, "system": system, "tools": tools, "meta": META}


def test_the_command_offers_the_trainers_that_there_are():
    assert list(TRAINER_NAMES) == list(TRAINERS)


@pytest.mark.parametrize(
    ("trainer", "chats", "way"),
    [
        ("llamafactory", ["u A", "u A u A"], "assistant"),
        ("llamafactory", ["u A", "u a u A"], "last"),
        ("llamafactory", ["U A", "U A U A"], "everything"),
        ("trl", ["u A", "u a u A"], "completion"),
        ("trl", ["u A", "u A u A"], "assistant"),
        ("trl", ["u a u A", "u a u A u A"], "assistant_of_completion"),
        ("trl", ["U A", "U A U A"], "everything"),
        ("swift", ["u A u a u A"], "message"),
        ("axolotl", ["U A u a"], "message"),
        ("torchtune", ["U A u a"], "message"),
    ],
)
def test_the_way_that_trains_on_what_the_records_say(trainer, chats, way):
    chosen, tally = survey_records(TRAINERS[trainer], map(record, chats))
    assert chosen.name == way
    assert tally.lost == {}
    assert tally.chars_of_records == tally.chars_of_trainer > 0
    assert tally.read == tally.written == len(chats)


def test_of_ways_that_lose_as_many_records_the_one_that_trains_on_nearly_as_much():
    way, tally = survey_records(TRAINERS["trl"], [record("u A u a u A")])
    assert (way.name, tally.lost) == ("assistant", {"masks": 1})
    assert tally.chars_of_trainer == tally.chars_of_records + len("a3")


@pytest.mark.parametrize(
    ("trainer", "chat", "lost"),
    [
        # LLaMA-Factory: no mask per message, strict turns
        ("llamafactory", "u A u a u A", {"masks"}),
        ("llamafactory", "U A u A", {"masks"}),
        ("llamafactory", "A u A", {"opening"}),
        ("llamafactory", "u u A", {"same_role"}),
        ("llamafactory", "u A t t A", {"same_role"}),
        ("llamafactory", "u a A", {"masks"}),
        ("llamafactory", "u t A", {"roles"}),
        ("llamafactory", "u s A", {"roles"}),
        ("llamafactory", "s s u A", {"two_systems"}),
        ("llamafactory", "u A t A", set()),
        # ms-swift: a loss per message of the assistant
        ("swift", "u A u a u A", set()),
        ("swift", "A u A", set()),
        ("swift", "A u a", set()),
        ("swift", "u t A", set()),
        ("swift", "u A t t A", set()),
        ("swift", "t A", {"roles"}),
        ("swift", "u A t u A", {"roles"}),
        ("swift", "u u A", {"same_role"}),
        ("swift", "U A", {"masks"}),
        # axolotl: whatever a record says
        ("axolotl", "U A u a T A s s A", set()),
        # TRL: the assistant's messages from some place on
        ("trl", "u A u a u A", {"masks"}),
        ("trl", "u A u a", set()),
        ("trl", "u A t t u s A", set()),
        # torchtune: any mask, but strict turns and no tools
        ("torchtune", "U A u a u A", set()),
        ("torchtune", "u A u", set()),
        ("torchtune", "A u A", {"opening"}),
        ("torchtune", "u A t A", {"roles"}),
        ("torchtune", "u u A", {"same_role"}),
    ],
)
def test_what_a_trainer_cannot_express(trainer, chat, lost):
    assert set(survey_records(TRAINERS[trainer], [record(chat)])[1].lost) == lost


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_record_without_anything_to_train_on_is_left_out(trainer):
    way, tally = survey_records(TRAINERS[trainer], [record("u a"), record("u A")])
    assert tally.to_json() == {
        "read": 2,
        "written": 1,
        "left_out": {"untrained": 1},
        "changed": {},
    }
    assert tally.lost == {}
    assert len(list(trainer_rows(TRAINERS[trainer], way, [record("u a"), record("u A")]))) == 1


@pytest.mark.parametrize("trainer", ["llamafactory", "swift", "axolotl", "trl"])
def test_tools_that_these_cannot_parse_leave_the_record_out(trainer):
    _, tally = survey_records(
        TRAINERS[trainer], [record("u A", tools="search the web"), record("u A")]
    )
    assert (tally.left_out, tally.written) == ({"tools_text": 1}, 1)


@pytest.mark.parametrize("trainer", ["llamafactory", "trl"])
def test_training_on_everything_would_train_on_tools_too(trainer):
    _, tally = survey_records(TRAINERS[trainer], [record("U A", tools=TOOLS)])
    assert set(tally.lost) <= {"masks", "no_prompt"}
    assert tally.lost


def test_a_trained_first_message_leaves_no_prompt():
    _, tally = survey_records(TRAINERS["trl"], [record("u a u A u A")] * 3 + [record("A u a u A")])
    assert tally.left_out == {"no_prompt": 1}


def row(trainer: str, *records: dict) -> dict:
    way, _ = survey_records(TRAINERS[trainer], records)
    made = list(trainer_rows(TRAINERS[trainer], way, records))
    # What a file of this schema gives back is what was put in: no key is lost.
    table = pa.Table.from_pylist(made, way.schema)
    assert table.to_pylist() == made
    return made[0]


def test_rows_for_swift_have_the_system_first_and_a_loss_for_the_assistant_alone():
    assert row("swift", record("u a u A", system="S", tools=TOOLS)) == {
        "messages": [
            {"role": "system", "content": "S", "loss": None},
            {"role": "user", "content": "u0", "loss": None},
            {"role": "assistant", "content": "a1", "loss": False},
            {"role": "user", "content": "u2", "loss": None},
            {"role": "assistant", "content": "A3", "loss": True},
        ],
        "tools": TOOLS,
    }


def test_rows_for_axolotl_say_of_every_message_whether_it_is_trained_on():
    assert row("axolotl", record("u A", system="S")) == {
        "messages": [
            {"role": "system", "content": "S", "training": False},
            {"role": "user", "content": "u0", "training": False},
            {"role": "assistant", "content": "A1", "training": True},
        ],
        "tools": None,
    }


def test_rows_for_trl_are_cut_where_training_begins():
    said = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "u0"},
        {"role": "assistant", "content": "A1"},
    ]
    one = record("u A u", system="S", tools=TOOLS)
    assert row("trl", one) == {"prompt": said[:2], "completion": said[2:], "tools": TOOLS}
    assert row("trl", record("u A u A"))["messages"][3] == {"role": "assistant", "content": "A3"}


def test_rows_for_llamafactory_and_torchtune_have_the_layout_of_records():
    said = [
        {"role": "user", "content": "u0", "loss_mask": False},
        {"role": "assistant", "content": "A1", "loss_mask": True},
    ]
    whole = {"messages": said, "system": "S", "tools": TOOLS}
    assert row("llamafactory", record("u A u", system="S", tools=TOOLS)) == whole
    changed = row("torchtune", record("u A", system="S", tools=TOOLS))
    assert changed == {**whole, "system": f"S\n\n# Tools\n{TOOLS}", "tools": None}
    assert json.loads(TOOLS)


def test_a_system_message_that_is_trained_on_stays_a_message():
    assert row("torchtune", record("S u A"))["system"] is None
    assert row("torchtune", record("S u A"))["messages"][0]["loss_mask"] is True


TURNS = st.lists(st.sampled_from("uUaAsStT"), min_size=1, max_size=6)
RECORDS = st.builds(
    lambda turns, system, tools: record(" ".join(turns), system=system, tools=tools),
    TURNS,
    st.none() | st.just("S"),
    st.none() | st.sampled_from([TOOLS, "plain"]),
)


@given(st.lists(RECORDS, min_size=1, max_size=8), st.sampled_from(sorted(TRAINERS)))
def test_whatever_the_records_are_every_one_is_a_row_or_counted(records, name):
    trainer = TRAINERS[name]
    way, tally = survey_records(trainer, records)
    made = list(trainer_rows(trainer, way, records))
    assert tally.read == len(records) == tally.written + sum(tally.left_out.values())
    assert len(made) == tally.written
    assert pa.Table.from_pylist(made, way.schema).to_pylist() == made
    if not tally.lost:
        assert tally.chars_of_trainer == tally.chars_of_records
    alone = [list(trainer_rows(trainer, way, [one])) for one in records]
    assert made == [row for one in alone for row in one]  # what was seen before changes nothing
