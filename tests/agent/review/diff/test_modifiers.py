"""What a modifier of a value declares beside its field is what every other part reads."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from ingot.agent.reporting.mapping_words import value_text
from ingot.agent.review.diff.change_rules import RULES
from ingot.agent.review.diff.mapping_changes import compare_mappings
from ingot.converters import json_yaml
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.language import MODIFIERS
from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceSpec
from tests.agent.review.diff.documents import normal_form

ROOT = Path(__file__).parents[4]
MOST_MODULES = 6  # of the product that spell the key of one modifier

STATED: dict[str, tuple[Json, str]] = {
    "each": ("list[*]", "for each list[*]"),
    "pick": ("right", "picked by right"),
    "map": ({"a": "b"}, "(map 'a' → b)"),
    "as": ("json", "(as json)"),
    "text_of": ("html", "(text of html)"),
    "replace": ({"a": ""}, "(replace 'a' → \"\")"),
    "label": ("A. ", '(label "A. ")'),
    "sep": ("", '(sep "")'),
}
IN_PICK = "from"  # stands in the value of a `pick` only


def test_the_schema_has_the_modifiers_in_the_order_of_the_fields() -> None:
    stated = json_yaml.schema("mapping")["$defs"]["modifiers"]["properties"]
    assert [*stated, IN_PICK] == [one.key for one in MODIFIERS]


@pytest.mark.parametrize("key", STATED)
def test_a_modifier_has_its_words_and_its_review_rule(key: str) -> None:
    stated, words = STATED[key]
    value = bind({"version": 2, "text": {"path": "p[*]", key: stated}}).outer.text
    assert value
    assert value_text(value) == f"p[*] {words}"
    old, new = (
        normal_form({"version": 2, "text": value})
        for value in ({"path": "p[*]"}, {"path": "p[*]", key: stated})
    )
    found = compare_mappings(old, new)
    assert [one.rule for one in found] == [f"value_{key}"]
    assert f"value_{key}" in RULES


def test_a_modifier_stands_in_few_modules() -> None:
    spelt = re.compile(r'["\']pick["\']')
    modules = [
        p for folder in ("agent", "converters", "ingot") for p in (ROOT / folder).rglob("*.py")
    ]
    found = {str(p.relative_to(ROOT)) for p in modules if spelt.search(p.read_text("utf-8"))}
    assert len(found) <= MOST_MODULES, sorted(found)


def test_every_fact_about_the_files_has_its_review_rule() -> None:
    assert {f"source_{one.name}" for one in fields(SourceSpec)} <= RULES.keys()
