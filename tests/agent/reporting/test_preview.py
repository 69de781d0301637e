"""A mapping as people read it: every construct of the language has words."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Readings
from ingot.agent.privacy import Redactor, SafeValue
from ingot.agent.proposing.proposal import Proposal
from ingot.agent.reporting.mapping_words import describe, value_text
from ingot.agent.reporting.preview import path_reach, preview, record_lines, row_text
from ingot.agent.state import Check, Order, State
from ingot.converters import json_yaml
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.mapping.check import PathReach
from ingot.converters.rows import Json


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a.b", "a.b"),
        (["title", "body"], "title + body"),
        ({"literal": "en"}, "always en"),
        ({"literal": "You are Bob."}, 'always "You are Bob."'),
        ({"template": "{{k}}. {{v}}", "each": "o[*]"}, 'template "{{k}}. {{v}}" for each o[*]'),
        ({"template": "{{[0]}}", "each": ["a", "b"]}, 'template "{{[0]}}" for each a with b'),
        ({"any_of": ["a", {"literal": "x"}]}, "first of a, always x"),
        (
            {"concat": ["a", "b"], "label": "A. ", "pick": "key"},
            'a + b picked by key (label "A. ")',
        ),
        (
            {"path": "p", "map": {"French": "fr", "*": None}},
            "p (map 'French' → fr, '*' → left out)",
        ),
        (
            {"path": "p", "replace": {"<eos>": ""}, "sep": " "},
            'p (replace \'<eos>\' → "") (sep " ")',
        ),
        ({"path": "p", "as": "json"}, "p (as json)"),
    ],
)
def test_values(value: Any, words: str) -> None:
    assert json_yaml.violations("mapping", {"version": 2, "text": value}) == []
    mapping = bind({"version": 2, "text": value})
    assert mapping.outer.text
    assert value_text(mapping.outer.text) == words


def test_a_whole_mapping() -> None:
    document = {
        "version": 2,
        "source": {"root": "data[*]", "encoding": "gb18030"},
        "group": {"by": ["chat"], "sort": "turn"},
        "each": "parts[*]",
        "where": [{"path": "good", "in": [True]}, {"path": "q", "min_chars": 3}],
        "messages": [
            {"each": ["q[*]", "a[*]"], "role": ["user", "assistant"], "content": "[0]"},
            {"role": {"path": "from", "map": {"bot": "assistant", "x": None}}, "content": "say"},
            {"role": {"split": {"Q:": "user"}}, "content": "log", "loss_mask": False},
            {"role": "assistant", "content": None},
        ],
        "system": "persona",
        "tools": {"path": "tools", "as": "json"},
        "meta": {"language": {"literal": "zh"}, "source": None, "original_id": "~"},
    }
    assert json_yaml.violations("mapping", document) == []
    assert list(describe(bind(document))) == [
        ("source.encoding", "gb18030"),
        ("source.root", "data[*]"),
        ("group", "rows with equal chat, sorted by turn"),
        ("each", "one record per parts[*]"),
        ("where", "good is true"),
        ("where", "q has at least 3 characters"),
        ("user / assistant in turn", "[0] for each q[*] with a[*]"),
        ("role by from", "say ('bot' → assistant, 'x' → left out)"),
        ("roles by marker", "log (loss_mask false) ('Q:' → user)"),
        ("assistant", "nothing"),
        ("system", "persona"),
        ("tools", "tools (as json)"),
        ("meta.language", "always zh"),
        ("meta.original_id", "~"),
    ]


def test_alternatives_are_numbered() -> None:
    document = {"version": 2, "any_of": [{"text": "a"}, {"text": "b"}], "meta": {"source": "s"}}
    assert list(describe(bind(document))) == [
        ("meta.source", "s"),
        ("alternative 1: text", "a"),
        ("alternative 2: text", "b"),
    ]


def test_coverage_per_path_names_what_is_absent() -> None:
    path = PathReach(path="a", pointer="/text", need="required", resolved=196, null=3, missing=1)
    assert list(path_reach([path], Redactor("raw"))) == [
        ("a", "/text", "196/200 rows, 3 null, 1 missing")
    ]
    assert list(path_reach([], Redactor("raw"))) == []


def test_a_row_is_cut_and_keeps_its_keys() -> None:
    text = row_text(SafeValue({"a": "x" * 200, "b": list(range(9)), "c": {"d": None}}))
    assert '"a": "' + "x" * 160 + ' ...(+40 characters)"' in text
    assert '"(+5 more)"' in text
    assert '"d": null' in text


def test_a_record_is_shown_turn_by_turn() -> None:
    turns = [
        {"role": "user", "content": "a\nb", "loss_mask": False},
        {"role": "assistant", "content": "c", "loss_mask": True},
        {"role": "assistant", "content": "d", "loss_mask": False},
        {"role": "user", "content": "e", "loss_mask": True},
    ]
    meta = {"source": "s", "language": None, "token_count": 3}
    record = {"messages": [*turns, *turns, *turns], "system": "kind", "meta": meta}
    lines = list(record_lines(SafeValue(record)))
    assert lines[:4] == [
        ("user", "a\nb"),
        ("assistant", "c"),
        ("assistant (not trained)", "d"),
        ("user (trained)", "e"),
    ]
    assert lines[8:] == [
        ("", "(+4 messages)"),
        ("system", "kind"),
        ("meta", "source s, token_count 3"),
    ]
    assert list(record_lines(SafeValue({"text": "t" * 700, "meta": {}}))) == [
        ("text", "t" * 600 + " ...(+100 characters)"),
        ("meta", ""),
    ]


def proposal(mapping: dict[str, Any], mapper: str) -> Proposal:
    return Proposal(
        decision="pt", mapping=read_tree(mapping), confidence=1.0, reason="", mapper=mapper
    )


@pytest.mark.parametrize(
    ("share", "seen"),
    [
        ("raw", ("bob@example.com", 13800138000)),
        ("redacted", ("[email]", "[phone]")),
        ("none", ("[email]", "[phone]")),
    ],
)
def test_secrets_are_shown_only_where_the_order_says_raw(
    share: str, seen: tuple[Json, Json], tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    row = {"ask": "mail bob@example.com", "bob@example.com": "ok", "n": 13800138000}
    file.write_text(json.dumps(row) + "\n")
    mapping = {"version": 2, "text": ["ask", "['bob@example.com']"]}
    order = Order(source=str(file), out=None, share_values=share)
    path = PathReach(
        path="['bob@example.com']", pointer="/text/1", need="part", resolved=1, null=0, missing=0
    )
    state: State = {
        "order": order,
        "proposal": proposal(mapping, "scripted"),
        "check": Check(rows=1, ok_rows=1, records=1, coverage=1.0, failures={}, paths=(path,)),
    }
    mail, phone = seen
    shown = preview(state, Readings(location=order.source))
    assert shown.masked == (share != "raw")
    before, after = (one.json for one in shown.examples[0])
    assert before == {"ask": f"mail {mail}", mail: "ok", "n": phone}
    assert after["text"].startswith(f"mail {mail}")
    assert shown.lines == (("text", f"ask + ['{mail}']"),)
    assert shown.paths == ((f"['{mail}']", "/text/1", "1/1 rows"),)


@pytest.mark.parametrize(("share", "shown"), [("redacted", "[secret]"), ("raw", "hunter0abc")])
def test_what_a_key_hides_is_hidden_in_the_record(tmp_path: Path, share: str, shown: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "Some words.", "password": "hunter0abc"}\n')
    order = Order(source=str(tmp_path), share_values=share)
    given = proposal({"version": 2, "text": ["body", "password"]}, "file")
    state: State = {"order": order, "proposal": given, "check": None}
    row, record = (one.json for one in preview(state, Readings(location=order.source)).examples[0])
    assert row["password"] == shown
    assert record["text"] == f"Some words.\n{shown}"
