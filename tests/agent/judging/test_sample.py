"""What a mapping's run on the sample shows: what fails, and what is told."""

from typing import Any

import pytest

from ingot.agent.state import Gate


def pair(asked: Any = "q", answered: Any = "a") -> dict[str, Any]:
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    return {"version": 2, "messages": messages}


ROWS: list[Any] = [{"q": f"Question {n}?", "a": f"Answer number {n}."} for n in range(40)]


def test_a_sound_mapping_passes_every_gate(told: Any) -> None:
    found = told(pair(), ROWS)
    assert found.states("warn", "fail", "person") == set()
    assert found["coverage"] == Gate(
        name="coverage", state="pass", figure="40/40 (100.0 %)", limit="at least 98 %"
    )
    assert found["trained on"].figure.startswith("40/40 (100.0 %) records, ")
    assert found["confidence"].figure == "0.90"
    assert found["paths"].figure == "2/2"


def test_paths_count_where_the_data_has_them(told: Any) -> None:
    meta = {"quality_score": "score", "original_id": "id"}
    found = told({**pair(), "meta": meta}, [{**row, "score": None} for row in ROWS])
    assert found["paths"].figure == "3/4"


@pytest.mark.parametrize(("bad_rows", "state"), [(1, "pass"), (2, "fail")])
def test_coverage_counts_hard_errors_alone(told: Any, bad_rows: int, state: str) -> None:
    rows = [*ROWS, *ROWS[:20], {"q": "x", "a": None}]
    rows[:bad_rows] = [{"q": {"no": "text"}, "a": "x"}] * bad_rows
    found = told(pair(), rows)
    assert found["coverage"].state == state
    assert found["coverage"].figure.startswith(f"{61 - bad_rows}/61 (")
    assert found["no assistant"].figure == "1/61 (1.6 %)"
    assert found["no assistant"].state == "pass"
    assert found["texts"].state == "fail"


def test_soft_outcomes_stop_a_run_only_where_nothing_is_left(told: Any) -> None:
    where = {"where": [{"path": "keep", "in": [True]}]}
    rows = [{**row, "keep": n % 4 == 0} for n, row in enumerate(ROWS)]
    found = told(pair() | where, rows, mapper="rules")
    assert (found["filtered"].state, found["filtered"].figure) == ("warn", "30/40 (75.0 %)")
    assert found.states("fail", "person") == {"records left out"}
    assert told(pair() | where, rows, mapper="edited").states("fail", "person") == set()
    half = [{**row, "keep": n % 2 == 0} for n, row in enumerate(ROWS)]
    assert told(pair() | where, half, mapper="rules").states("fail", "person") == set()
    found = told(pair() | where, [{**row, "keep": False} for row in ROWS], mapper="rules")
    assert found.states("fail") == {"records", "filtered"}
    assert found["coverage"].state == "pass"


def test_role_values_without_a_role_are_named(told: Any) -> None:
    role = {"path": "who", "map": {"me": "user", "it": "assistant"}}
    mapping = {"version": 2, "messages": [{"each": "t[*]", "role": role, "content": "x"}]}
    turns = [{"who": "me", "x": "a"}, {"who": "it", "x": "b"}]
    found = told(mapping, [{"t": turns}] * 5)
    assert found["unmapped role values"].figure == "none"
    found = told(mapping, [{"t": turns}] * 60 + [{"t": [*turns, {"who": "boss", "x": "c"}]}])
    gate = found["unmapped role values"]
    assert (gate.state, gate.figure) == ("fail", "in 1 record")
    assert "boss (1 times)" in gate.detail


def test_a_path_on_both_sides_fails(told: Any) -> None:
    gate = told(pair(["q", "a"], "a"), ROWS)["paths on both sides"]
    assert (gate.state, gate.figure, gate.limit) == ("fail", "1 problem", "none")


def test_nothing_to_train_on_fails_and_little_is_told(told: Any) -> None:
    mapping = pair()
    mapping["messages"][1]["loss_mask"] = "w"
    found = told(mapping, [{**row, "w": 0} for row in ROWS])
    assert found["trained on"].state == "fail"
    assert found["trained on"].figure == "0/40 (0.0 %) records, 0.0 % of the characters"
    found = told(mapping, [{**row, "w": int(n < 10)} for n, row in enumerate(ROWS)])
    assert found["trained on"].state == "warn"


def test_constant_content_is_told(told: Any) -> None:
    same = [{**row, "a": "OK."} for row in ROWS]
    found = told(pair(), same)
    assert found.states("warn", "fail") == {"most frequent answer"}
    assert found["most frequent answer"].figure == "40/40 (100.0 %)"
    nearly = [*same[:39], ROWS[39]]
    assert told(pair(), nearly)["most frequent answer"].state == "warn"
    assert told(pair(), same[:2])["most frequent answer"].state == "pass"
    text = told({"version": 2, "text": "a"}, same)
    assert text.states("warn") == {"most frequent text"}


def test_token_ids_are_told(told: Any) -> None:
    rows = [{"ids": [n, *range(100, 130)]} for n in range(20)]
    found = told({"version": 2, "text": "ids[*]"}, rows)
    assert found.states("warn") == {"lists of numbers as text"}
    assert found["lists of numbers as text"].figure == "20/20 (100.0 %)"


@pytest.mark.parametrize(("bad", "state"), [(10, "pass"), (30, "fail")])
def test_unreadable_rows_have_a_gate_of_their_own(told: Any, bad: int, state: str) -> None:
    found = told(pair(), ROWS, bad=bad)
    assert found["unreadable rows"].state == state
    assert found["unreadable rows"].figure.startswith(f"{bad}/{40 + bad} (")
    assert found["coverage"].state == "pass"


def test_details_hold_no_secrets(told: Any) -> None:
    role = {"path": "who", "map": {"me": "user", "it": "assistant"}}
    mapping = {"version": 2, "messages": [{"each": "t[*]", "role": role, "content": "x"}]}
    found = told(mapping, [{"t": [{"who": "ann@example.org", "x": "a"}]}] * 5)
    assert "example.org" not in found["unmapped role values"].detail
    assert "[email]" in found["unmapped role values"].detail


@pytest.mark.parametrize(("mapper", "state"), [("rules", "person"), ("edited", "warn")])
def test_text_that_reaches_no_record_needs_a_person(told: Any, mapper: str, state: str) -> None:
    long = "and so it went on for the rest of that day, "
    rows = [{"t": f"A short text, number {n}.", "long": f"{n} {long * 5}"} for n in range(9)]
    found = told({"version": 2, "text": "t"}, rows, mapper=mapper)
    assert found["text in the records"].state == state
    assert found["files without a record"].state == "pass"


@pytest.mark.parametrize(("mapper", "state"), [("llm", "person"), ("file", "warn")])
def test_timestamps_that_are_no_time_need_a_person(told: Any, mapper: str, state: str) -> None:
    mapping = pair() | {"meta": {"timestamp": "when"}}
    times = ["2020-05-01", "1998", "20200501", "1588291200", "2020年3月5日", None]
    good = [{**row, "when": times[n % 6]} for n, row in enumerate(ROWS)]
    name = "unparsed timestamps"
    assert told(mapping, good, mapper=mapper)[name].state == "pass"
    papers = [{**row, "when": f"{2000 + n}年物理试卷"} for n, row in enumerate(ROWS)]
    gate = told(mapping, good[:36] + papers[:4], mapper=mapper)[name]
    assert (gate.state, gate.figure) == (state, "4/34 (11.7 %)")
    assert name not in told(pair(), ROWS)


@pytest.mark.parametrize(("mapper", "state"), [("llm", "person"), ("file", "warn")])
def test_a_few_rows_that_hold_a_conversation_in_one_text_are_seen(
    told: Any, mapper: str, state: str
) -> None:
    marked = "<user>: It hurts.\n<bot>: Since when?\n<user>: Since {} days ago."
    rows = [{"q": marked.format(n), "a": f"Rest, number {n}."} for n in range(3)] + ROWS[:27]
    gate = told(pair(), rows, mapper=mapper)["conversations in one text"]
    assert (gate.state, gate.figure) == (state, "3/30 (10.0 %)")
    assert told(pair(), ROWS, mapper=mapper)[gate.name].state == "pass"


def test_documents_of_which_a_few_are_conversations_need_a_person(told: Any) -> None:
    marked = "Human: Why did gate {} shut?\n\nAssistant: The wind.\n\nHuman: Was anybody there?"
    talks = [{"t": marked.format(n)} for n in range(30)]
    texts = [{"t": f"Gate {n} stands open all year, and nobody minds."} for n in range(27)]
    name, mapping = "conversations in one text", {"version": 2, "text": "t"}
    gate = told(mapping, texts + talks[:3])[name]
    assert (gate.state, gate.figure) == ("person", "3/30 (10.0 %)")
    assert name not in told(mapping, texts)
    assert name not in told(mapping, talks)  # who asks for documents gets them


ICON, PICTURE = (
    "data:image/png;base64,iVBORw0KGgo=",
    f"data:image/png;base64,{'iVBORw0KGgo' * 1000}",
)


@pytest.mark.more
@pytest.mark.parametrize("text", ["![icon]({})", '<img alt="" src="{}">', "see {} there"])
def test_files_inside_texts_need_a_person(told: Any, text: str) -> None:
    many = [*ROWS, *({"q": f"Why {n}?", "a": text.format(ICON)} for n in range(3))]
    found = told(pair(), many)
    assert found["files inside texts"].state == "person"
    assert found["large files inside texts"].state == "pass"
    # One icon among many texts is no harm; one picture of many characters is.
    few = [{"q": f"Why {n}?", "a": f"Because of {n}."} for n in range(150)]
    assert told(pair(), [*few, many[-1]])["files inside texts"].state == "pass"
    large = told(pair(), [*few, {"q": "Why?", "a": text.format(PICTURE)}])
    assert large["large files inside texts"].state == "person"
    assert "base64" in large["large files inside texts"].detail
    document = {"version": 2, "text": "a"}
    assert told(document, [{"a": text.format(PICTURE)}, *few])["large files inside texts"].detail
    assert "files inside texts" not in told(document, few)
    spoken = [{"q": "What is base64?", "a": "The part after ;base64, in data: addresses."}] * 9
    assert told(pair(), spoken)["files inside texts"].state == "pass"
