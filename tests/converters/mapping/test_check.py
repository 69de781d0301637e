"""The gate between a proposal and a conversion: what a mapping makes of a sample."""

from typing import Any

import pytest

from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import CheckReport, check_mapping
from ingot.converters.mapping.path_uses import path_uses
from ingot.converters.rows import BadRow
from ingot.converters.sources.sample import Sample, SampledBad, SampledRow


def sample_of(rows: list[Any], bad: int = 0) -> Sample:
    return Sample(
        rows=tuple(
            SampledRow(file="a.jsonl", row=i, key=None, value=row) for i, row in enumerate(rows)
        ),
        bad=tuple(
            SampledBad(file="a.jsonl", bad=BadRow(row=len(rows) + i, detail="cut", found="{"))
            for i in range(bad)
        ),
        complete=True,
        total_rows=len(rows) + bad,
    )


def run(document: dict[str, Any], rows: list[Any], **options: Any) -> CheckReport:
    sample = sample_of(rows, options.pop("bad", 0))
    return check_mapping(bind(document, rows), sample, source_name="a", **options)


def test_coverage_per_path() -> None:
    rows = [{"t": "x", "m": {"id": 1}}, {"t": "y", "m": {"id": None}}, {"t": "z"}]
    report = run({"version": 2, "text": "t", "meta": {"original_id": "m.id"}}, rows)
    assert [(p.path, p.pointer, p.resolved, p.null, p.missing) for p in report.paths] == [
        ("t", "/text", 3, 0, 0),
        ("m.id", "/meta/original_id", 1, 1, 1),
    ]
    assert (report.rows, report.ok_rows, report.records, report.coverage) == (3, 3, 3, 1.0)
    assert report.problems == ()
    assert report.examples[0] == (rows[0], {"text": "x", "meta": report.examples[0][1]["meta"]})


@pytest.mark.parametrize(
    ("document", "pointer", "nearest"),
    [
        ({"version": 2, "text": "bodi"}, "/text", "body"),
        ({"version": 2, "text": ["title", "body"], "system": None}, "/text/0", None),
        ({"version": 2, "each": "para[*]", "text": "text"}, "/each", "paras[*]"),
        ({"version": 2, "each": "paras[*]", "text": "txt"}, "/text", "text"),
        ({"version": 2, "text": "body", "meta": {"original_id": "Id"}}, "/meta/original_id", "id"),
        (
            {
                "version": 2,
                "text": {"concat": ["body", {"template": "{{txt}}", "each": "paras[*]"}]},
            },
            "/text/1/template",
            "text",
        ),
        (
            {
                "version": 2,
                "messages": [{"each": "paras[*]", "role": {"path": "rol"}, "content": "text"}],
            },
            "/messages/0/role/path",
            "role",
        ),
    ],
)
def test_a_path_that_resolves_nowhere_is_a_problem_with_its_place_and_the_nearest(
    document: dict[str, Any], pointer: str, nearest: str | None
) -> None:
    rows = [{"id": 1, "body": "b", "paras": [{"text": "p", "role": "user"}]}]
    found = [p for p in run(document, rows).problems if p.code == "unresolved_path"]
    assert [(p.pointer, p.nearest) for p in found] == [(pointer, nearest)]


def test_every_pointer_leads_into_the_saved_document() -> None:
    from ingot.converters.mapping.documents.writer import to_document

    document = {
        "version": 2,
        "group": {"by": ["g"], "sort": "s"},
        "each": "[*]",
        "where": [{"path": "w", "in": [1]}],
        "any_of": [
            {
                "messages": [
                    {"role": "tool", "content": {"path": "a[*]", "pick": "p", "each": "e[*]"}}
                ]
            },
            {
                "messages": [
                    {"each": ["x[*]", "y[*]"], "role": {"path": "r"}, "content": ["c", "d"]},
                    {"role": "assistant", "content": {"any_of": ["k", "l"]}, "loss_mask": "m"},
                ],
                "system": {"template": "{{t}}"},
            },
        ],
        "meta": {"original_id": {"concat": ["i", "j"], "sep": "-"}},
    }
    mapping = bind(document)
    saved = to_document(mapping)
    found = list(path_uses(mapping))
    assert len(found) == 18
    for use in found:
        place: Any = saved
        for step in use.pointer.split("/")[1:]:
            place = place[int(step) if isinstance(place, list) else step]
        assert use.path.text in str(place), use.pointer


def test_coverage_counts_hard_errors_and_not_soft_ones() -> None:
    rows: list[Any] = [{"t": "x"}] * 7 + [{"t": ""}] * 2 + [{"t": [1]}]
    report = run({"version": 2, "text": "t"}, rows)
    assert report.failures == {"empty_text": 2, "not_text": 1}
    assert report.coverage == 0.9
    assert {p.code for p in report.problems} == {"not_text", "coverage"}
    assert run({"version": 2, "text": "t"}, rows[:9]).problems == ()


def test_unreadable_rows_are_no_fault_of_the_mapping_until_they_are_many() -> None:
    report = run({"version": 2, "text": "t"}, [{"t": "x"}] * 9, bad=2)
    assert (report.rows, report.unreadable, report.coverage) == (11, 2, 1.0)
    assert report.failures == {"bad_row": 2}
    assert report.problems == ()
    (problem,) = run({"version": 2, "text": "t"}, [{"t": "x"}] * 6, bad=3).problems
    assert (problem.code, problem.got) == ("unreadable", "3 of 9")


@pytest.mark.more
def test_an_unmapped_role_is_a_problem_however_rare() -> None:
    rows = [{"m": [{"r": "user", "c": "Hi"}, {"r": "assistant", "c": "Ho"}]}] * 200
    rows = [*rows, {"m": [{"r": "bot", "c": "Hi"}]}]
    document = {
        "version": 2,
        "messages": [{"each": "m[*]", "role": {"path": "r"}, "content": "c"}],
    }
    (problem,) = run(document, rows).problems
    assert (problem.code, problem.pointer) == ("unmapped_value", "/messages/0/role/path")
    assert (problem.expected.endswith(" at r"), problem.got) == (True, "bot (1 times)")


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"version": 2, "text": "a.b"}, "/text"),
        ({"version": 2, "text": ["t", {"path": "a.b", "replace": {"x": ""}}]}, "/text/1/path"),
        ({"version": 2, "text": {"template": "{{t}}{{a.b}}"}}, "/text/template"),
        (
            {
                "messages": [
                    {"role": "user", "content": "d[*].t"},
                    {"role": "assistant", "content": "d[*].x"},
                ]
            },
            "/messages/1/content",
        ),
    ],
)
def test_a_text_that_is_none_is_a_problem_with_its_place(
    document: dict[str, Any], pointer: str
) -> None:
    rows = [{"t": "x", "a": {"b": [1]}, "d": [{"t": "x", "x": {}}]}]
    (problem,) = (p for p in run(document, rows).problems if p.code == "not_text")
    assert problem.pointer == pointer


def test_an_unmapped_value_is_placed_where_the_map_stands() -> None:
    mapped = {"path": "l", "map": {"French": "fr"}}
    document = {"version": 2, "text": ["l", mapped]}
    (problem,) = (p for p in run(document, [{"l": "Dutch"}]).problems if p.code == "unmapped_value")
    assert problem.pointer == "/text/1/path"


def test_nothing_left_is_a_problem() -> None:
    report = run({"version": 2, "text": "t"}, [{"t": None}, {"t": " "}])
    assert [p.code for p in report.problems] == ["no_records"]


def test_group_keys_are_looked_up_in_the_rows() -> None:
    rows = [{"c": 1, "n": n, "t": f"t{n}"} for n in (2, 1)]
    document = {"version": 2, "group": {"by": ["c"], "sort": "n"}, "text": "[*].t"}
    report = run(document, rows)
    assert report.problems == ()
    assert report.examples[0][1]["text"] == "t1\nt2"
    (problem,) = run({**document, "group": {"by": ["c"], "sort": "N"}}, rows).problems
    assert (problem.pointer, problem.nearest) == ("/group/sort", "n")


def test_an_irrelevant_mapping_converts_nothing_and_has_no_problems() -> None:
    report = run({"version": 2, "text": None}, [{"a": 1}])
    assert (report.rows, report.records, report.problems) == (1, 0, ())


PAIR = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def test_an_answer_in_its_own_question_is_a_problem() -> None:
    messages = [{"role": "user", "content": ["q", "a"]}, PAIR[1]]
    report = run({"version": 2, "messages": messages}, [{"q": "Why?", "a": "So."}])
    assert [(one.pointer, one.code) for one in report.problems] == [
        ("/messages/1/content", "both_sides")
    ]
    assert "/messages/0/content" in report.problems[0].expected


def test_records_without_a_trained_message_are_a_problem_only_where_all_are() -> None:
    rows = [{"q": "Why?", "a": "So.", "w": 0}, {"q": "How?", "a": "Thus.", "w": 0}]
    document = {"version": 2, "messages": [PAIR[0], {**PAIR[1], "loss_mask": "w"}]}
    report = run(document, rows)
    assert [(one.pointer, one.code) for one in report.problems] == [("/messages", "no_training")]
    report = run(document, [*rows, {**rows[0], "w": 1}])
    assert report.problems == ()
    assert (report.content.trained_records, report.content.records) == (1, 3)


def test_messages_that_the_role_map_leaves_out_are_counted() -> None:
    role = {"path": "from", "map": {"a": "user", "b": "assistant", "note": None}}
    turns = [{"from": name, "t": "x"} for name in ("a", "note", "b", "note", "note")]
    mapping = {
        "version": 2,
        "each": "talks[*]",
        "messages": [{"each": "turns[*]", "role": role, "content": "t"}],
    }
    report = run(mapping, [{"talks": [{"turns": turns}, {"turns": turns}]}])
    assert (report.messages, report.dropped, report.records) == (10, 6, 2)
    no_drop = {**role, "map": {"a": "user", "b": "assistant", "note": "tool"}}
    mapping["messages"] = [{"each": "turns[*]", "role": no_drop, "content": "t"}]
    assert run(mapping, [{"talks": [{"turns": turns}]}]).messages == 0


def test_values_under_a_star_are_listed() -> None:
    role = {"path": "by", "map": {"Pilot": "assistant", "log": None, "*": "user"}}
    document = {"version": 2, "messages": [{"each": "t[*]", "role": role, "content": "x"}]}
    names = ["Ann", "Ann", "Bo", "Cy", "Di", "Ed", "Flo"]
    rows = [{"t": [{"by": name, "x": "q"}, {"by": "Pilot", "x": "a"}]} for name in names]
    report = run(document, [*rows, {"t": [{"by": None, "x": " "}, {"by": "log", "x": "!"}]}])
    assert report.others == (
        'role by by: 7 of 15 messages fall under "*" (user): Ann (2 times), Bo (1 times), '
        "Cy (1 times), Di (1 times), Ed (1 times) and 1 more",
    )
    assert (report.messages, report.dropped) == (15, 1)
    left_out = {**document["messages"][0], "role": {**role, "map": {"Pilot": "user", "*": None}}}
    assert run({**document, "messages": [left_out]}, rows[:1]).others == (
        'role by by: 1 of 2 messages fall under "*" (left out): Ann (1 times)',
    )
    assert run(by_alternatives(document), rows[:1]).others == (
        'role by by: 1 of 2 messages fall under "*" (user): Ann (1 times)',
    )


def by_alternatives(document: dict[str, Any]) -> dict[str, Any]:
    layouts = [{"messages": document["messages"], "where": [{"path": "t[0].by", "in": ["Ann"]}]}]
    return {"version": 2, "any_of": [*layouts, {"messages": document["messages"]}]}


def test_only_a_value_falls_under_a_star() -> None:
    role = {"path": "by", "map": {"Pilot": "assistant", "*": "user"}}
    document = {"version": 2, "messages": [{"each": "t[*]", "role": role, "content": "x"}]}
    spoken = [{"by": 7, "x": "q"}, {"by": "", "x": "r"}, {"by": "Pilot", "x": "a"}]
    report = run(document, [{"t": spoken}, {"t": [{"x": "q"}]}, {"t": [{"by": None, "x": "q"}]}])
    assert (report.records, report.failures) == (1, {"unmapped_value": 2})
    assert [one["role"] for one in report.examples[0][1]["messages"]] == [
        "user",
        "user",
        "assistant",
    ]
