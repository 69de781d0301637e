"""Mappings of single rows as mappings of groups of rows, and back."""

import pytest

from ingot.agent.chat.group_paths import enter_group, leave_group
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.documents.writer import to_document

GROUP = {"by": ["id"]}
CASES = {
    "a text": ({"text": "t"}, {"text": "[*].t"}),
    "the whole row": ({"text": "$"}, {"text": "[*]"}),
    "several parts": ({"text": ["a", "b"]}, {"text": {"concat": ["a", "b"], "each": "[*]"}}),
    "a template": (
        {"text": {"template": "{{a}}: {{b}}"}},
        {"text": {"template": "{{a}}: {{b}}", "each": "[*]"}},
    ),
    "a list within": (
        {"text": {"template": "{{a}}: {{b}}", "each": "turns[*]"}},
        {"text": {"template": "{{a}}: {{b}}", "each": "[*].turns[*]"}},
    ),
    "facts of the first row": (
        {
            "text": "t",
            "meta": {
                "original_id": {"template": "{{a.b}}/{{c}}"},
                "language": {"literal": "en"},
                "source": "@file",
                "timestamp": {"any_of": ["x", "y"]},
            },
        },
        {
            "text": "[*].t",
            "meta": {
                "original_id": {"template": "{{[0].a.b}}/{{[0].c}}"},
                "language": {"literal": "en"},
                "source": "@file",
                "timestamp": {"any_of": ["[0].x", "[0].y"]},
            },
        },
    ),
    "messages with a condition": (
        {
            "where": [{"path": "t", "min_chars": 2}],
            "messages": [{"role": {"path": "who"}, "content": "t"}],
            "system": "s",
        },
        {
            "messages": [
                {
                    "each": "[*]",
                    "where": [{"path": "t", "min_chars": 2}],
                    "role": {"path": "who"},
                    "content": "t",
                }
            ],
            "system": "[0].s",
        },
    ),
    "a condition of a text": (
        {"where": [{"path": "ok", "in": [True]}], "text": "t"},
        {"where": [{"path": "[0].ok", "in": [True]}], "text": "[*].t"},
    ),
    "messages below a list": (
        {"messages": [{"each": "turns[*]", "role": {"path": "who"}, "content": "t"}]},
        {"messages": [{"each": "[*].turns[*]", "role": {"path": "who"}, "content": "t"}]},
    ),
    "the short form": (
        {
            "messages": [
                {"role": "user", "content": "qa[*].q"},
                {"role": "assistant", "content": "qa[*].a", "loss_mask": "qa[*].w"},
            ]
        },
        {
            "messages": [
                {"role": "user", "content": "[*].qa[*].q"},
                {"role": "assistant", "content": "[*].qa[*].a", "loss_mask": "[*].qa[*].w"},
            ]
        },
    ),
    "a record per element": (
        {"each": "qas[*]", "text": ["q", "a"], "meta": {"original_id": "^.id"}},
        {"each": "[*].qas[*]", "text": ["q", "a"], "meta": {"original_id": "^.id"}},
    ),
    "alternatives": (
        {"any_of": [{"text": "a"}, {"each": "qas[*]", "text": "q"}], "meta": {"source": "s"}},
        {
            "any_of": [{"text": "[*].a"}, {"each": "[*].qas[*]", "text": "q"}],
            "meta": {"source": "[0].s"},
        },
    ),
}


def tree(body, **more):
    return bind({"version": 2, **more, **body})


@pytest.mark.parametrize("case", CASES)
def test_a_mapping_of_rows_becomes_one_of_groups(case):
    rows, groups = CASES[case]
    assert to_document(enter_group(tree(rows))) == {"version": 2, **groups}
    assert to_document(enter_group(tree(groups))) == {"version": 2, **groups}
    assert tree(groups, group=GROUP).group


@pytest.mark.parametrize("case", [one for one in CASES if one != "messages with a condition"])
def test_and_back(case):
    rows, groups = CASES[case]
    assert to_document(leave_group(tree(groups))) == {"version": 2, **rows}
