"""`ingot.propose` with a model: a server that speaks the OpenAI protocol answers."""

from pathlib import Path
from typing import Any

import pytest

import ingot
from tests.agent.test_asking import reply, write


@pytest.fixture
def data(chat: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows of which the rules are unsure, and an endpoint in the environment."""
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_BASE_URL", chat.url)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-test")
    return write(tmp_path / "a")


def contents(mapping: Any) -> list[Any]:
    return [one["content"] for one in mapping["messages"]]


@pytest.mark.more
def test_a_model_proposes_and_the_rules_mapping_is_an_alternative(chat: Any, data: Path) -> None:
    rules = ingot.propose(data, mode="sft")
    chat.always = reply(answers="detailed_output")
    proposal = ingot.propose(data, mode="sft", model="m1")
    assert chat.requests
    assert {one["model"] for one in chat.requests} == {"m1"}
    assert chat.headers[0]["authorization"] == "Bearer key-of-the-test"
    assert (proposal.decision, proposal.mapper) == ("sft", "llm")
    assert proposal.reason.endswith("; detailed_output answers prompt.")
    assert contents(proposal.mapping) == ["prompt", "detailed_output"]
    other, *_ = proposal.alternatives
    assert other == {key: one for key, one in rules.mapping.items() if key != "provenance"}
    assert contents(other) != contents(proposal.mapping)
    assert ingot.check(data, other).problems == ()
    assert not proposal.passes  # rules and model disagree: a person decides
    assert "llm" in proposal._repr_html_()
    records = list(ingot.records(data, proposal.mapping, rejects=[]))
    assert records[0]["messages"][1]["content"].startswith("2 ")


def test_a_model_that_agrees_has_no_alternative(chat: Any, data: Path) -> None:
    rules = contents(ingot.propose(data, mode="sft").mapping)
    chat.always = reply(*rules)
    proposal = ingot.propose(data, mode="sft", model="m1")
    assert proposal.mapper == "llm"
    assert proposal.mapping not in proposal.alternatives


def test_a_model_is_not_asked_beyond_the_limit_of_tokens(chat: Any, data: Path) -> None:
    chat.always = reply()
    proposal = ingot.propose(data, mode="sft", model="m1", llm_max_tokens=500)
    assert chat.requests == []
    assert (proposal.mapper, proposal.passes) == ("rules", False)
    assert "budget" in proposal.reason
