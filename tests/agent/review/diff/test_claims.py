"""What the class of a change claims, held against what becomes of rows."""

import copy
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from ingot.agent.review.diff.change_rules import worst_class
from ingot.agent.review.diff.mapping_changes import compare_mappings
from ingot.converters.errors import MappingError
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.sources.storage.listing import matches_globs
from tests.agent.review.diff.documents import normal_form


def _beside(name: str) -> Any:
    """A module of this folder, which is no package."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec
    assert spec.loader
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


drawn = _beside("documents")
MANY = settings(max_examples=30, suppress_health_check=list(HealthCheck))
# What a class leaves open, of a record and of its messages.
OPEN = {"none": (), "additive": (), "meta": ("meta",), "training": ("meta", "loss_mask")}


@pytest.mark.more
@MANY
@given(drawn.documents, st.lists(drawn.rows, min_size=1, max_size=3))
def test_the_normal_form_converts_as_the_file_does(document: Any, rows: list[Any]) -> None:
    tree = normal_form(document)
    form = to_document(tree)
    assert to_document(normal_form(form)) == form
    assert compare_mappings(normal_form(form), tree) == ()
    for row in rows:
        assert drawn.spelt(drawn.records(form, row)) == drawn.spelt(drawn.records(document, row))


def hold(old: Any, new: Any, rows: list[Any]) -> str:
    """Check what the class of a change claims on some rows; gives the class."""
    try:
        found = compare_mappings(normal_form(old), normal_form(new))
    except MappingError:
        assume(False)
    kind = worst_class(found)
    if kind == "breaking":
        return kind
    from_data = any(one.rule == "loss_mask_from_data" for one in found)
    for row in rows:
        was, now = (drawn.spelt(drawn.records(one, row), OPEN[kind]) for one in (old, new))
        if kind == "none":
            assert was == now
        else:
            # A loss mask of the data may reject what it cannot read, but changes no text.
            assert drawn.within(was, now) or (from_data and drawn.within(now, was))
    return kind


@pytest.mark.more
@MANY
@given(st.data(), drawn.documents, st.lists(drawn.rows, min_size=3, max_size=6))
def test_one_edit_does_to_rows_what_its_class_says(data: Any, old: Any, rows: list[Any]) -> None:
    hold(old, data.draw(drawn.edited(old)), rows)


@pytest.mark.long
@settings(MANY, max_examples=4000)
@given(st.data(), drawn.documents, st.lists(drawn.rows, min_size=3, max_size=6))
def test_many_edits_do_what_their_classes_say(data: Any, old: Any, rows: list[Any]) -> None:
    hold(old, data.draw(drawn.edited(old)), rows)


@pytest.mark.more
@MANY
@given(st.data(), drawn.documents, st.lists(drawn.rows, min_size=3, max_size=6))
def test_edits_do_together_what_their_class_says(data: Any, old: Any, rows: list[Any]) -> None:
    new = data.draw(drawn.edited(old))
    assume(worst_class(_changes(old, new)) != "breaking")
    hold(old, data.draw(drawn.edited(new)), rows)


def _changes(old: Any, new: Any) -> Any:
    try:
        return compare_mappings(normal_form(old), normal_form(new))
    except MappingError:
        return assume(False)


@MANY
@given(drawn.documents, drawn.documents)
def test_whatever_changed_is_said_in_words(old: Any, new: Any) -> None:
    before = normal_form(old), normal_form(new)
    found = compare_mappings(*copy.deepcopy(before))
    documents = [json.dumps(to_document(one)) for one in before]
    assert not found or documents[0] != documents[1]
    for one in found:
        assert one.old != one.new
        assert max(len(words or "") for words in (one.old, one.new)) < 300


NAMES = ("a.jsonl", "b.jsonl", "x/a.jsonl", "x/b.csv", "c.jsonl.gz", "c", "x/y/index.txt")
patterns = st.lists(
    st.sampled_from(["a*", "!a*", "*.jsonl", "!*.jsonl", "x/**", "!x/**", "*", "!*", "b.*", "!c*"]),
    min_size=1,
    max_size=4,
)


@MANY
@given(patterns, patterns)
@example(["!a*"], ["!a*", "*.jsonl"])
@example(["*", "!a*"], ["!a*", "*"])
def test_wider_globs_choose_what_was_chosen(old: list[str], new: list[str]) -> None:
    documents = ({"version": 2, "text": "a", "source": {"files": one}} for one in (old, new))
    found = compare_mappings(*map(normal_form, documents))
    if found and found[0].rule == "source_files":
        return
    lost = [name for name in NAMES if matches_globs(name, old) and not matches_globs(name, new)]
    assert not lost
    assert found or [matches_globs(name, old) for name in NAMES] == [
        matches_globs(name, new) for name in NAMES
    ]
