"""Whose turn it is: the first by name of a shape, before all others of it."""

from ingot.agent.lake.shared_model import TurnQueue
from ingot.converters.lake.survey import DataSet
from ingot.converters.sources import Source
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.storage.listing import Listing, LocalFile


def data_set(name, *columns):
    facts = FileFacts(format="csv", shape=frozenset(columns))
    file = SourceFile(name=name, bytes=1, mtime_ns=1, etag=None, place=LocalFile(name), facts=facts)
    source = Source(
        location=name,
        name=name,
        spec=SourceSpec(),
        files=(file,),
        left_out=(),
        guessed=SourceSpec(),
        roots=(),
        listing=Listing(base=name, direct=False, entries=()),
    )
    return DataSet(name=name, place=name, source=source)


def told(turns):
    return {one.data_set.name: one.after for one in turns.next()}


def test_the_first_of_a_shape_goes_before_the_others():
    turns = TurnQueue(
        [data_set("c", "x"), data_set("b", "x"), data_set("a", "y"), data_set("d", "x")]
    )
    assert told(turns) == {"c": "b", "b": "", "a": "", "d": "b"}
    turns.settle({"a": "", "b": "one"}, {"c": "one", "d": "two"})
    assert told(turns) == {"c": "", "d": ""}
    turns.settle({"c": "one", "d": "two"}, {})
    assert not turns


def test_what_was_alike_at_first_sight_only_is_dealt_with_by_its_own_shape():
    turns = TurnQueue([data_set(name, "x") for name in "abcd"])
    turns.settle({"a": "one"}, dict.fromkeys("bcd", "two"))
    assert told(turns) == {"b": ""}  # the others would only be put off again
    turns.settle({"b": "two"}, {})
    assert told(turns) == {"c": "", "d": ""}


def test_where_all_are_in_each_others_way_they_go_one_by_one_and_then_all_at_once():
    turns = TurnQueue([data_set("a", "x"), data_set("b", "y")])
    turns.settle({}, {"a": "one", "b": "two"})
    assert turns.runs_alone
    turns.settle({}, {"a": "one", "b": "two"})
    assert not turns.runs_alone  # that did not help
    assert [one.pending for one in turns.next()] == [frozenset(), frozenset()]
    turns.settle({"a": "one"}, {"b": "two"})
    assert not turns.runs_alone
    assert [one.pending for one in turns.next()] == [frozenset({"b"})]
