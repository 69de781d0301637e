"""Orders as objects and as typed lines; the folder that they must not leave."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.served.order_input import (
    HELP,
    check_confined,
    parse_typed_order,
    refuse_unexpanded,
    wants_help,
)
from ingot.agent.state import Order
from ingot.agent.steps.order_schema import TYPED_OPTIONS, check_order
from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import encode
from ingot.converters.mapping.bind import read_tree


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ("data.jsonl", {"source": "data.jsonl"}),
        ("'my data' --out=o", {"source": "my data", "out": "o"}),
        ("--out o d --mode sft", {"source": "d", "out": "o", "mode": "sft"}),
        ("d --limit 5 --min-confidence 0.5", {"source": "d", "limit": 5, "min_confidence": 0.5}),
        ("d --yes --dry-run", {"source": "d", "yes": True, "dry_run": True}),
        ("d --source-name $HOME;ls", {"source": "d", "source_name": "$HOME;ls"}),
    ],
)
def test_what_a_line_orders(words: str, order: dict[str, Any]) -> None:
    assert parse_typed_order(words) == Order(**order)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("", "one source is needed, found none"),
        ("a b", "found 'a', 'b'"),
        ("a 'b", "No closing quotation"),
        ("a --colour red", "no option --colour"),
        ("a --mapping m.json", "no option --mapping"),
        ("a --out", "--out takes a value"),
        ("a --out --yes", "--out takes a value, found the option --yes"),
        ("a --language klingon", "language: 'klingon' is neither"),
        ("a --min-confidence nan", "min_confidence: 'nan' is not of type"),
        ("a --limit 100000000000000000000000", "limit: 1"),
        ("a --yes=no", "--yes takes no value"),
        ("a --limit many", "limit: 'many' is not"),
        ("a --limit 0", "limit: 0 is less than"),
        ("a --min-confidence x", "min_confidence: 'x' is not"),
        ("a --mode both", "mode: 'both' is not one of"),
    ],
)
def test_a_line_that_is_no_order(words: str, fault: str) -> None:
    with pytest.raises(ConversionError, match=fault):
        parse_typed_order(words)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"language": "klingon"}, "language: 'klingon' is neither"),
        ({"out": "a\0b"}, "out: control characters"),
        ({"source": "a\nb"}, "source: control characters"),
        ({"out": "\ud800"}, "out: control characters"),
        ({"out": "x" * 5000}, "out: longer than 4096"),
        ({"limit": 10**23}, "limit: 1.* is greater than"),
        ({"prompt_tokens": 10**23}, "prompt_tokens: 1.* is greater than"),
        ({"min_confidence": float("nan")}, "min_confidence: no number"),
    ],
)
def test_an_object_that_is_no_order(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConversionError, match=fault) as refused:
        check_order({"source": "s", **given})
    assert len(str(refused.value)) < 300


def test_a_whole_number_is_one_however_it_is_written() -> None:
    assert isinstance(check_order({"source": "s", "limit": 5.0}).limit, int)


def test_a_mistake_names_its_option_and_help_all_of_them() -> None:
    with pytest.raises(ConversionError) as refused:
        parse_typed_order("a --limit many")
    assert "--limit N: Convert only the first N rows" in str(refused.value)
    assert "--mode" not in str(refused.value)
    assert all(f"| `--{name.replace('_', '-')}` |" in HELP for name in TYPED_OPTIONS)
    assert wants_help(" Help ")
    assert not wants_help("help.jsonl")


@pytest.mark.parametrize("place", ["source", "out", "tokenizer"])
def test_no_shell_has_expanded_a_served_order(place: str) -> None:
    with pytest.raises(ConversionError, match=f"{place}: ~ is not expanded"):
        refuse_unexpanded(Order(**{"source": "s", place: "~/conv"}))
    refuse_unexpanded(Order(source="s", out="a~"))


def test_an_object_is_an_order_and_its_mapping_is_used() -> None:
    given: Any = {"source": "s", "mapping": {"version": 2, "text": "t"}}
    order = Order(source="s", mapping=read_tree(given["mapping"]), mapper="file")
    assert check_order(given) == order
    order = Order(source="s", out="o", limit=3, language="zh")
    assert check_order(encode(order)) == order


@pytest.mark.parametrize("where", [{"runner": "ray", "ray_address": "auto"}, {"runner": "local"}])
def test_only_the_command_line_says_where_the_work_is_done(where: dict[str, str]) -> None:
    order = Order(source="s", **where)
    assert check_order(encode(order), served=False) == order
    with pytest.raises(ConversionError, match="runner"):
        check_order(encode(order))


def test_every_field_of_an_order_is_known() -> None:
    here = {"shard", "runner", "ray_address"}  # where work is done is for the command line alone
    assert not here & TYPED_OPTIONS.keys()
    known = {*TYPED_OPTIONS, *here, "source", "mapping", "mapping_file"}
    assert known == asdict(Order(source="s")).keys()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with data in it, and data beside it."""
    (tmp_path / "root" / "data").mkdir(parents=True)
    (tmp_path / "root" / "data" / "a.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "secret.jsonl").write_text('{"text": "x"}\n')
    return tmp_path / "root"


def test_an_order_may_stay_in_the_folder(root: Path) -> None:
    for source in (root / "data", root / "data" / "a.jsonl", root / "data" / "*.jsonl"):
        check_confined(Order(source=str(source), out=str(root / "new" / "out")), root)
    check_confined(Order(source=f"file://{root}/data"), root)


@pytest.mark.parametrize(
    "order",
    [
        {"source": "ROOT/../secret.jsonl"},
        {"source": "/"},
        {"source": "ROOT"},
        {"source": "file:///etc/hosts"},
        {"source": "ROOT/../*.jsonl"},
        {"source": "ROOT/d*/../../*.jsonl"},
        {"source": "~"},
        {"source": "hf://datasets/a/b"},
        {"source": "s3://bucket/key"},
        {"source": "ROOT/data", "out": "ROOT/../out"},
        {"source": "ROOT/data", "out": "ROOT"},
        {"source": "ROOT/data", "tokenizer": "/etc/hosts"},
    ],
)
def test_an_order_that_leaves_the_folder(root: Path, order: dict[str, str]) -> None:
    given = {name: value.replace("ROOT", str(root)) for name, value in order.items()}
    with pytest.raises(ConversionError, match=r"lies outside|only files of this machine"):
        check_confined(Order(**given), root)


def test_the_place_that_is_looked_at_is_the_one_that_is_used(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.chdir(root.parent)  # where "~/out" would be written
    with pytest.raises(ConversionError, match="lies outside"):
        check_confined(Order(source=str(root / "data"), out="~/out"), root)


def test_links_are_followed_before_it_is_looked_at_where_they_lead(root: Path) -> None:
    link = root / "data" / "link.jsonl"
    link.symlink_to(root.parent / "secret.jsonl")
    for source in (link, root / "data", root / "data" / "l*.jsonl"):
        with pytest.raises(ConversionError, match="lies outside"):
            check_confined(Order(source=str(source)), root)
    link.unlink()
    (root / "way").symlink_to(root.parent)
    with pytest.raises(ConversionError, match="lies outside"):
        check_confined(Order(source=str(root / "data"), out=str(root / "way" / "out")), root)
