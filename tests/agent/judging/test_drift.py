"""Drift: what has changed since a mapping was made, and what is only another sample."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.agent.judging import drift
from ingot.agent.judging.drift import Change
from ingot.agent.proposing.fingerprint import source_shape
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.sample import Sample, SampledRow, draw_sample

Rows = list[Any]


def chat(count: int, *, names: tuple[str, ...] = ("human", "gpt"), **more: Any) -> Rows:
    return [
        {"id": n, "turns": [{"from": name, "value": f"say {n}"} for name in names], **more}
        for n in range(count)
    ]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "raw.jsonl").write_text('{"a": 1}\n')
    return open_source(str(tmp_path / "raw.jsonl"))


def shape_of(source: Source, rows: Rows, *, complete: bool = True) -> dict[str, Any]:
    """As the provenance of a saved mapping holds it."""
    sample = Sample(
        rows=tuple(SampledRow(file="a", row=n, key=None, value=row) for n, row in enumerate(rows)),
        bad=(),
        complete=complete,
        total_rows=None,
    )
    made: dict[str, Any] = json.loads(json.dumps(source_shape(source, sample)))
    return made


def told(source: Source, before: Rows, after: Rows, **how: Any) -> list[tuple[str, str, bool]]:
    changes = drift.find_drift(shape_of(source, before), shape_of(source, after, **how))
    return [(one.path, one.what, one.stops) for one in changes]


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        (chat(40), []),
        (chat(400), []),
        (chat(1), []),
        (chat(40, topic="x"), [("topic", "appeared", True)]),
        (chat(39) + chat(1, topic="x"), [("topic", "appeared", False)]),
        ([{"id": 1} for _ in range(40)], [("turns", "vanished", True)]),
        ([{**row, "id": 1.5} for row in chat(40)], []),
        ([{**row, "id": None} for row in chat(40)], []),
        ([{**row, "id": "x"} for row in chat(40)], [("id", "type", True)]),
        ([{**row, "id": "x"} for row in chat(2)] + chat(38), [("id", "type", False)]),
        ([{**row, "id": "x"} for row in chat(20)] + chat(20), [("id", "type", True)]),
        ([{**row, "turns": "x"} for row in chat(40)], [("turns", "type", True)]),
        (chat(40, names=("human",)), []),
        (chat(40) + chat(1, names=("human", "boss")), [("turns[*].from", "role value", True)]),
        ([], [("$", "vanished", False)]),
    ],
)
def test_what_stops_and_what_is_told(
    source: Source, after: Rows, changes: list[tuple[str, str, bool]]
) -> None:
    found = told(source, chat(40), after)
    if changes and changes[0][:2] == ("turns", "type"):
        found = [one for one in found if one[1] == "type"]
    if after == []:
        assert not any(stops for _, _, stops in found)
    else:
        assert found == changes


def test_a_renamed_path_both_vanishes_and_appears(source: Source) -> None:
    after = [{"id": row["id"], "talk": row["turns"]} for row in chat(40)]
    assert told(source, chat(40), after) == [
        ("turns", "vanished", True),
        ("talk", "appeared", True),
    ]
    inner = [{"id": 1, "turns": [{"from": "human", "text": "x"}]}] * 40
    assert told(source, chat(40), inner) == [
        ("turns[*].value", "vanished", True),
        ("turns[*].text", "appeared", True),
    ]


def test_null_is_no_type(source: Source) -> None:
    before = [{"a": "x", "b": None}] * 30
    assert told(source, before, [{"a": None, "b": None}] * 5 + before) == []
    assert told(source, before, [{"a": "x", "b": "x"}] * 30) == []
    assert told(source, before, [{"a": "x"}] * 30) == [("b", "vanished", False)]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"tags": []}, {"tags": ["x"]}, [("tags[*]", "appeared", False)]),
        ({"tags": None}, {"tags": ["x"]}, [("tags[*]", "appeared", False)]),
        ({"tags": {}}, {"tags": {"a": 1}}, [("tags.a", "appeared", False)]),
        ({"tags": None}, {"tags": {"a.b": 1}}, [("tags['a.b']", "appeared", False)]),
        ({"tags": []}, {"tags": [{"a": 1}]}, [("tags[*]", "appeared", False)]),
        ({"a": {"tags": []}}, {"a": {"tags": ["x"]}}, [("a.tags[*]", "appeared", False)]),
        ({"tags": {"b": 1}}, {"tags": {"a": 1, "b": 1}}, [("tags.a", "appeared", True)]),
        ({"tags": [{"b": 1}]}, {"tags": [{"a": 1, "b": 1}]}, [("tags[*].a", "appeared", True)]),
        ({"a": 1}, {"a": 1, "tags": ["x"]}, [("tags", "appeared", True)]),
        (
            {"tags": []},
            {"tags": {"a": 1}},
            [("tags", "type", True), ("tags.a", "appeared", True)],
        ),
    ],
)
def test_what_fills_a_place_that_was_empty_is_told(
    source: Source, before: Any, after: Any, changes: list[tuple[str, str, bool]]
) -> None:
    assert sorted(told(source, [before] * 40, [after] * 40)) == changes


def test_few_rows_prove_little(source: Source) -> None:
    few = [{"a": "x"}, {"a": "x", "note": "n"}, {"a": "x"}]
    assert told(source, few, [{"a": "x"}] * 200) == [("note", "vanished", False)]
    assert told(source, [{"a": "x"}] * 200, few) == [("note", "appeared", False)]
    assert told(source, few, [{"b": "x"}] * 3)[0] == ("a", "vanished", True)
    half = [{"a": "x"}, {"a": "x", "note": "n"}] * 100
    assert told(source, half, [{"a": "x"}] * 200) == [("note", "vanished", True)]
    # of rows that were drawn side by side ten are worth one
    assert told(source, [{"a": "x"}] * 3, half, complete=False) == [("note", "appeared", False)]


def test_keys_that_are_data_may_be_any(source: Source) -> None:
    def rows(first: int, count: int) -> Rows:
        names = [f"turn_{n}" for n in range(first, first + count)]
        return [{"chat": {name: {"q": "x", "a": "y"} for name in names}}] * 20

    assert told(source, rows(1, 3), rows(4, 9)) == []
    assert told(source, rows(1, 1), rows(1, 5)) == []  # one key alone does not look like data
    assert told(source, rows(1, 5), rows(7, 1)) == []
    other = [{"chat": {f"turn_{n}": {"q": "x", "b": "y"} for n in range(5)}}] * 20
    assert told(source, rows(1, 5), other) == [
        ("chat.*.a", "vanished", True),
        ("chat.*.b", "appeared", True),
    ]


def test_a_wide_source_is_compared_as_a_whole(source: Source) -> None:
    wide = {f"c{n}": n for n in range(450)}
    assert told(source, [wide] * 3, [wide] * 9) == []
    changes = drift.find_drift(
        shape_of(source, [wide] * 3), shape_of(source, [{**wide, "more": 1}] * 3)
    )
    assert [(one.path, one.before, one.after, one.stops) for one in changes] == [
        ("$", "451 paths", "452 paths", False)
    ]


def test_facts_are_told(source: Source) -> None:
    kept = shape_of(source, chat(3))
    changes = drift.find_drift(kept, {**kept, "facts": {"encoding": "gb18030"}})
    assert changes == (
        Change(path="encoding", what="fact", before="", after="gb18030", stops=False),
    )


@given(st.integers(0, 2**32), st.floats(0.1, 0.9))
@settings(max_examples=60, deadline=None)
def test_two_halves_of_one_data_set_have_one_shape(
    tmp_path_factory: pytest.TempPathFactory, seed: int, part: float
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "one.jsonl").write_text('{"a": 1}\n')
    source, chance = open_source(str(folder / "one.jsonl")), random.Random(seed)
    rows = [_any_row(chance) for _ in range(120)]
    cut = int(len(rows) * part)
    one, two = shape_of(source, rows[:cut]), shape_of(source, rows[cut:])
    assert [change for change in drift.find_drift(one, two) if change.stops] == []


def _any_row(chance: random.Random) -> Any:
    """Optional keys, mixed types, lists of any length."""
    row: dict[str, Any] = {"id": chance.choice([1, 2.5]), "text": "some text"}
    for number, share in enumerate((0.03, 0.15, 0.3, 0.6)):
        if chance.random() < share:
            row[f"maybe {number}"] = {"in": "side"}
    row["mixed"] = chance.choice(["text", "text", "text", 7, None])
    row["list"] = [{"x": chance.choice([1, None])} for _ in range(chance.randrange(3))]
    return row


@pytest.mark.more
@pytest.mark.parametrize("rows", [150, 3000])
def test_the_same_data_never_drifts_grown_and_resharded_neither(tmp_path: Path, rows: int) -> None:
    def lines(count: int) -> list[str]:
        chance = random.Random(7)
        made = [{"text": "word " * chance.randrange(300, 900)} for _ in range(count)]
        for row in made[::9]:
            row["note"] = "x"
        return [json.dumps(row) + "\n" for row in made]

    one = tmp_path / "one"
    one.mkdir()
    (one / "a.jsonl").write_text("".join(lines(rows)))
    source = open_source(str(one))
    kept = source_shape(source, draw_sample(source))
    assert drift.find_drift(kept, source_shape(source, draw_sample(source))) == ()
    many = tmp_path / "many"
    many.mkdir()
    grown = lines(rows * 2)
    for number in range(7):
        (many / f"part-{number}.jsonl").write_text("".join(grown[number::7]))
    source = open_source(str(many))
    assert not any(
        one.stops for one in drift.find_drift(kept, source_shape(source, draw_sample(source)))
    )


# --- beside a mapping


def role_change(path: str, *names: str) -> Change:
    return Change(path=path, what="role value", before="", after="", stops=True, names=names)


def mapping(role: Any, **more: Any) -> Any:
    message = {"each": "turns[*]", "role": role, "content": "value"}
    return bind({"version": 2, "messages": [message], **more})


def test_speakers_that_the_mapping_names_are_told() -> None:
    named = {"human": "user", "gpt": "assistant", "boss": None}
    role = {"path": "from", "map": named}
    known, new = role_change("turns[*].from", "boss"), role_change("turns[*].from", "boss", "x")
    foreign = role_change("author", "x")
    found = drift.mapping_changes([known, new, foreign], mapping(role))
    assert [one.stops for one in found] == [False, True, False]
    plain = drift.mapping_changes(
        [role_change("turns[*].from", "tool"), new], mapping({"path": "from"})
    )
    assert [one.stops for one in plain] == [False, True]
    rest = {"path": "from", "map": {**named, "*": None}}
    ordered = {"path": "from", "order": ["user", "assistant"]}
    for role in (rest, ordered):
        assert not drift.mapping_changes([new], mapping(role))[0].stops


def test_speakers_inside_each_and_group_are_found() -> None:
    role = {"path": "who", "map": {"a": "user", "b": "assistant"}}
    message = {"each": "[*]", "role": role, "content": "t"}
    grouped = bind({"version": 2, "group": {"by": ["c"]}, "messages": [message]})
    assert drift.mapping_changes([role_change("who", "x")], grouped)[0].stops
    inner = mapping(role, each="talks[*]")
    assert drift.mapping_changes([role_change("talks[*].turns[*].who", "x")], inner)[0].stops


@pytest.mark.parametrize(
    ("document", "compared"),
    [
        ({"version": 2, "text": "a"}, False),
        ({"version": 2, "text": "a", "provenance": {"mapper": "rules"}}, False),
        ({"version": 2, "text": "a", "provenance": {"shape": {"weight": 1}}}, True),
        ({"source": {"root": "*"}, "provenance": {"shape": {"facts": {"root": "*"}}}}, True),
        ({"source": {"root": "$"}, "provenance": {"shape": {"facts": {"root": "*"}}}}, False),
        ({"source": {"columns": ["a"]}, "provenance": {"shape": {"weight": 1}}}, False),
    ],
)
def test_a_mapping_written_or_read_otherwise_has_no_shape(document: Any, compared: bool) -> None:
    assert (drift.stored_shape(read_tree({"version": 2, **document})) is not None) is compared


def test_the_changes_as_people_read_them() -> None:
    gone = Change(path="a", what="vanished", before="string", after="", stops=True)
    kind = Change(path="b.c", what="type", before="string", after="list", stops=False)
    assert drift.change_lines([gone, kind]) == [
        "path  change        before  after",
        "a     vanished      string",
        "b.c   type (noted)  string  list",
    ]
    assert drift.change_lines([gone] * 50)[-1] == "10 more"
    problem = drift.drift_problem([gone, kind])
    assert (problem.code, problem.pointer) == ("drift", "/provenance/shape")
    assert problem.got == "vanished: a (string); type: b.c (string → list)"
    assert drift.drift_problem([gone] * 7).got.endswith("; 2 more")
