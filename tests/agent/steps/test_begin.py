"""What a run is begun with: words, objects, both; what is left of the run before."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Context
from ingot.agent.served.begin import begin
from ingot.agent.served.order_input import HELP
from ingot.agent.state import Order
from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import encode

SERVED = Context(served=True)


@pytest.fixture
def data(tmp_path: Path) -> str:
    """A data set of one row."""
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"text": "x"}) + "\n")
    return str(file)


def human(words: str) -> dict[str, Any]:
    return {"type": "human", "content": words, "id": words[:9]}


def said(made: Any) -> str:
    return str(made["messages"][-1]["content"])


def test_an_object_beside_words_counts_and_the_answer_says_so(data: str) -> None:
    made = begin({"messages": [human("convert it")], "order": {"source": data}}, SERVED)
    assert made["order"] == made["ordered"] == encode(Order(source=data))
    assert "is ignored" in said(made)


def test_words_after_an_order_are_read(data: str) -> None:
    before = encode(Order(source="old"))
    state: Any = {"messages": [human(data)], "order": before, "ordered": before}
    assert begin(state, SERVED)["order"]["source"] == data


def test_an_object_that_is_none_does_not_keep_later_words_out(data: str) -> None:
    state: Any = {"messages": [human(data)], "order": {"sauce": 1}}
    refused = begin(state, SERVED)
    assert "send it again" in said(refused)
    assert refused["order"] == refused["ordered"] == {}
    again = begin({**state, **refused, "messages": [human(data)]}, SERVED)
    assert again["order"]["source"] == data


@pytest.mark.parametrize("left", [{"proposal": {"decision": "pt"}}, {"stopped": {"kind": "model"}}])
def test_what_waited_is_dropped_aloud(data: str, left: dict[str, Any]) -> None:
    state: Any = {"messages": [human(data)], **left}
    assert "proposal discarded" in said(begin(state, SERVED))
    assert "proposal discarded" not in said(begin({**state, "outcome": {"status": "done"}}, SERVED))


def test_help_is_a_table_and_a_mistake_is_not(data: str) -> None:
    assert said(begin({"messages": [human("help")]}, SERVED)) == HELP
    mistake = said(begin({"messages": [human(f"{data} --limit no")]}, SERVED))
    assert "Convert only the first N rows" in mistake
    assert "| --- |" not in mistake


def test_a_mapper_that_there_is_not(data: str) -> None:
    with pytest.raises(ConversionError, match="'nosuch' is not one of auto, llm, rules"):
        begin({"order": {"source": data, "mapper": "nosuch"}}, SERVED)
    with pytest.raises(ConversionError, match="'file' is not one of"):
        begin({"order": {"source": data, "mapper": "file"}}, SERVED)


def test_home_is_not_expanded_where_no_shell_was(data: str) -> None:
    order = {"source": data, "out": "~/conv"}
    with pytest.raises(ConversionError, match="out: ~ is not expanded"):
        begin({"order": order}, SERVED)
    assert begin({"order": order}, Context())["order"]["out"] == "~/conv"
    assert "is not expanded" in said(begin({"messages": [human(f"{data} --out ~/conv")]}, SERVED))


def test_a_tokenizer_that_is_missing_is_told_at_once(data: str, tmp_path: Path) -> None:
    line = f"{data} --out {tmp_path}/out --tokenizer {tmp_path}/no.json"
    made = begin({"messages": [human(line)]}, SERVED)
    assert made["order"] == {}
    assert "no.json" in said(made)
