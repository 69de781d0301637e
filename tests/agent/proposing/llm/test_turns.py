"""Who speaks, in which order, and what belongs together."""

from typing import Any

from ingot.agent.privacy import Redactor
from ingot.agent.proposing.columns import View
from ingot.agent.proposing.llm.relations import relation_lines


def sentence(number: int) -> str:
    return f"The river near number {number} is older than the stones of the town."


def told(rows: list[Any], share: str = "redacted") -> str:
    rows = Redactor(share, rows).value(rows).json
    return "\n".join(relation_lines(rows, View.of(rows), share))


def test_who_begins_who_ends_and_whether_they_take_turns() -> None:
    turns = [{"from": who, "say": sentence(n)} for n, who in enumerate(["human", "gpt"] * 2)]
    rows = [{"turns": turns}] * 3 + [{"turns": [*turns, turns[-1]]}]
    assert 'turns[*].from: neighbours differ in 75% of 4 lists; first "human"; last "gpt"' in told(
        rows
    )


def test_of_many_who_begin_the_rest_are_counted() -> None:
    names = ["user", "assistant", "system", "tool", "observer", "manager"]
    rows = [{"turns": [{"role": name}, {"role": "user"}]} for name in names for _ in range(3)]
    first = '"user" 17%, "assistant" 17%, "system" 17%, "tool" 17%, +2; last "user"'
    assert f"first {first}" in told(rows)


def test_names_of_speakers_are_values_too() -> None:
    turns = [{"from": who, "say": "x"} for who in ("human", "gpt", "jo@mail.example.com", "gpt")]
    rows = [{"turns": turns[n % 2 :]} for n in range(4)] + [{"turns": turns[2:]}] * 4
    assert "mail.example" not in told(rows)
    assert '"[email]" 50%' in told(rows)
    assert "withheld" in told(rows, "none")


def test_rows_that_belong_together() -> None:
    rows = [
        {"conv": f"c{n // 4}", "turn": n % 4, "who": f"p{n // 4}{n % 2}", "say": sentence(n)}
        for n in range(24)
    ]
    line = "rows with the same conv are neighbours, 4-4 rows each; turn counts up inside them; "
    assert line + "who takes turns between two values inside them" in told(rows)


def test_in_pairs_of_rows_nothing_takes_turns() -> None:
    rows = [{"conv": f"c{n // 2}", "hash": f"h{n:04}", "say": sentence(n)} for n in range(24)]
    assert "takes turns" not in told(rows)


def test_one_speaker_alone_has_no_order() -> None:
    assert "neighbours" not in told([{"turns": [{"role": "user", "say": sentence(1)}] * 3}] * 4)


def test_a_column_sorted_by_its_label_is_no_group() -> None:
    rows = [{"label": "abc"[n // 8], "text": sentence(n)} for n in range(24)]
    assert "neighbours" not in told(rows)


def test_rows_of_two_kinds() -> None:
    rows = [{"q": sentence(n), "a": "x"} for n in range(6)]
    rows += [{"title": sentence(n), "body": "y"} for n in range(4)]
    assert "rows are of 2 kinds: 6 rows with q, a | 4 rows with title, body" in told(rows)


def test_how_deep_a_tree_goes() -> None:
    rows = []
    for number in range(6):
        tree: dict[str, Any] = {"text": sentence(number), "replies": []}
        for _ in range(number + 3):
            tree = {"text": sentence(number), "replies": [tree]}
        rows.append({"tree": tree})
    assert "objects of one shape stand inside each other, up to 9 deep" in told(rows)
    assert "inside each other" not in told([{"a": {"b": {"c": 1}}}] * 3)
