"""The inventory of paths."""

from dataclasses import replace
from typing import Any

from ingot.agent.privacy import Redactor
from ingot.agent.proposing.llm.inventory import inventory_lines, role_values, size_ladder
from ingot.converters.sources.profile import profile_values

SIZE = size_ladder(small=False)[0]
TERSE = size_ladder(small=True)[0]


def told(rows: list[Any], share: str = "redacted", size: Any = SIZE) -> dict[str, str]:
    """The lines by their path."""
    rows = Redactor(share, rows).value(rows).json
    made = inventory_lines(rows, profile_values(rows), size, share)
    return {line.split(": ")[0]: line for line in made}


def test_types_fill_lengths_and_values() -> None:
    rows = [
        {"id": n, "label": "ab"[n % 2], "text": f"This is the text with number {n}.", "x": None}
        for n in range(8)
    ]
    rows[0]["text"] = None
    rows[1]["text"] = "  "
    del rows[2]["text"]
    made = told(rows)
    assert made["id"] == "id: integer; all 8; 0..7; all different"
    assert 'every value: "a" 50%, "b" 50%' in made["label"]
    assert "filled 5 of 8 (missing 1, null 1, blank 1)" in made["text"]
    assert made["empty in all rows"] == "empty in all rows: x"


def test_what_is_the_same_everywhere_shares_a_line() -> None:
    rows = [{"split": "train", "v": 2, "text": f"text {n}"} for n in range(3)]
    assert told(rows)["the same in all rows"] == 'the same in all rows: split = "train"; v = 2'
    assert told(rows, "none")["the same in all rows"] == "the same in all rows: split; v"


def test_truth_values_and_numbers_stand_without_quotes() -> None:
    rows = [{"good": n % 2 == 0, "stars": n % 3, "as_text": str(n % 2 == 0)} for n in range(6)]
    made = told(rows)
    assert "every value: true 50%, false 50%" in made["good"]
    assert "every value: 0 33%, 1 33%, 2 33%" in made["stars"]
    assert 'every value: "True" 50%, "False" 50%' in made["as_text"]


def test_every_role_is_told_with_its_share() -> None:
    names = ["human", "gpt", "system", *(f"tool {chr(97 + n)}" for n in range(20))]
    rows = [{"turns": [{"from": name, "say": "x"} for name in names]} for _ in range(3)]
    line = told(rows)["turns[*].from"]
    assert all(f'"{name}" 4%' in line for name in names)
    hidden = told(rows, "none")["turns[*].from"]
    assert '"human" 4%' in hidden
    assert "tool a" not in hidden
    assert "withheld" in hidden


def test_labels_are_told_with_their_shares_or_their_number() -> None:
    """Few ones at every size; of more the first and how many there are; of ids all or none."""
    rows = [
        {
            "state": ("open", "solved", "open", "spam")[n % 4],
            "topic": f"topic{n % 9}" if n else "topic8",
            "tag": f"tag{n % 37}",
            "thread_id": f"t{n % 9}",
            "text": f"Some text {n}",
        }
        for n in range(111)
    ]
    poorest = told(rows, size=size_ladder(small=True)[-1])
    assert poorest["state"].endswith('every value: "open" 50%, "solved" 25%, "spam" 24%')
    assert poorest["topic"] == "topic: 6 chars; 9 different"
    some = told(rows, size=replace(TERSE, values=2))
    assert some["topic"].endswith('9 different; values "topic8" 12%, "topic1" 12%, +7')
    assert some["thread_id"] == "thread_id: 2 chars; 9 different"
    assert some["tag"] == "tag: 4-5 chars; 37 different"


def test_a_rare_value_has_a_share_too() -> None:
    rows = [{"ok": n != 7, "text": f"Some text {n}"} for n in range(300)]
    assert told(rows)["ok"].endswith("every value: true 100%, false <1%")


def test_names_of_many_people_are_no_roles() -> None:
    rows = [{"author": f"user_{n}", "text": "t"} for n in range(30)]
    assert role_values(rows, profile_values(rows)["author"]) is None


def test_no_value_is_told_where_none_is_shared() -> None:
    rows = [{"label": ("secretive", "openly")[n % 2], "c": "constant", "n": n} for n in range(9)]
    made = "\n".join(told(rows, "none").values())
    assert not any(word in made for word in ("secretive", "openly", "constant"))


def test_values_are_redacted() -> None:
    rows = [{"label": ("jo@mail.example.com", "b")[n % 2]} for n in range(9)]
    made = told(rows)["label"]
    assert "[email]" in made
    assert "mail.example" not in made


def test_odd_names_can_be_copied_and_secret_ones_cannot() -> None:
    rows = [{"a\u200bb": n, "jo@mail.example.com": f"t {n}", "k" * 200: n} for n in range(3)]
    made = "\n".join(told(rows).values())
    assert "['a\\u200bb']: integer" in made
    assert "mail.example" not in made
    assert made.count("cannot be addressed") == 2
    assert "k" * 129 not in made


def test_times_without_a_year_are_said_to_be() -> None:
    rows = [{"at": f"05-{n:02d} 10:30", "on": f"2021-05-{n:02d}"} for n in range(1, 9)]
    made = told(rows)
    assert "time (no year)" in made["at"]
    assert made["on"].endswith("looks time")


def test_paths_stand_behind_those_that_they_lie_in() -> None:
    rows: list[Any] = [{"a": [], "b": "x"}, {"a": [{"t": "y"}, {"t": "w"}], "b": "z"}]
    assert list(told(rows)) == ["a", "a[*].t", "b"]


def test_of_too_many_paths_those_with_text_and_roles_stay() -> None:
    row: dict[str, Any] = {f"number_{n}": n for n in range(100)}
    rows = [
        {**{k: v + i for k, v in row.items()}, "body": f"long text {i} " * 40} for i in range(4)
    ]
    made = told(rows, size=replace(SIZE, paths=10))
    assert "body" in made
    assert len(made) == 11
    assert "(+91 paths: 91 numbers)" in made.values()


def test_what_is_hidden_first_is_what_a_mapping_needs_least() -> None:
    """Texts, speakers, ids, orders however deep they lie; then labels; numbers and flags last."""
    turns = [
        {"who": who, "seq": n, "parts": [{"kind": "ab"[n % 2], "text": f"Some words {n} said."}]}
        for n, who in enumerate(["user", "assistant"] * 2)
    ]
    rows = [
        {
            **{f"n{k}": k + n for k in range(40)},
            **{f"flag{k}": (n + k) % 2 == 0 for k in range(30)},
            **{f"key{k}": None if n else f"v{k}" for k in range(9)},
            "was_cancelled": n == 4,
            "log": {"turns": turns},
            "conversation_id": f"c{n // 2}",
        }
        for n in range(6)
    ]
    made = told(rows, size=replace(SIZE, paths=7))
    deep = [f"log.turns[*].{name}" for name in ("who", "seq", "parts[*].text", "parts[*].kind")]
    kept = {"conversation_id", "was_cancelled", *deep}
    assert kept <= set(made)
    hidden = "(+80 paths: 29 flags, 40 numbers, 9 constants, 2 lists around others)"
    assert hidden in made.values()


def test_long_texts_that_are_all_the_same_and_single_words_are_said_to_be() -> None:
    notice = "This notice stands below every text. " * 4
    rows = [{"note": notice, "name": f"w{n}", "say": f"Some text {n}"} for n in range(5)]
    made = told(rows, size=TERSE)
    assert made["note"] == "note: 148 chars; always the same"
    assert made["name"] == "name: 2 chars; all different; looks word"
    assert made["say"] == "say: 11 chars; all different"


def test_times_mails_and_hashes_are_not_told_by_their_values() -> None:
    rows = [
        {"on": f"2021-05-{n % 9 + 1:02d}", "mail": f"p{n % 9}@x.example.com", "say": f"Text {n}."}
        for n in range(30)
    ]
    made = told(rows, size=TERSE)
    assert made["on"] == "on: 10 chars; 9 different; looks time"
    assert made["mail"].endswith("9 different; looks email")


def test_a_fixed_phrase_is_told_before_fixed_numbers() -> None:
    fixed = {f"v{k}": k for k in range(90)} | {"persona": "You are kind."}
    made = told([{**fixed, "text": f"Some text {n}"} for n in range(4)])
    assert made["the same in all rows"].startswith(
        'the same in all rows: persona = "You are kind."'
    )


def test_terse_lines_leave_out_what_is_usual() -> None:
    rows = [{"text": f"some text of row {n}", "n": n} for n in range(9)]
    made = told(rows, size=TERSE)
    assert made["text"] == "text: 18 chars; all different"
    assert made["n"] == "n: integer; 0..8; all different"
