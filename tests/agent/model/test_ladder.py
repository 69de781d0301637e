"""Asking on the ladder: what is remembered, for whom, and what a budget stops."""

import json
import logging
import pickle
from itertools import pairwise
from typing import Any

import pytest

from ingot.agent.model.budget import Ledger, Limits, Price, Spent
from ingot.agent.model.cache import FORM_LEVELS, KnownForm, Store
from ingot.agent.model.client import ask_model
from ingot.converters.errors import BudgetReached, ModelError
from ingot.converters.json_yaml import encode

BLANK = (200, {"choices": [{"finish_reason": "stop", "message": {"content": " "}}]})
NO_SCHEMA = (400, {"error": {"message": "json_schema is not supported"}})
NO_TEMPERATURE = (400, {"error": {"message": "temperature does not support 0"}})
OTHER_ROOM = (400, {"error": {"message": "max_tokens is not supported, use max_completion_tokens"}})


def cut(text: str = '{"a', tokens: int = 100) -> tuple[int, dict[str, Any]]:
    choice = {"finish_reason": "length", "message": {"content": text}}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": tokens}}


def ask_for_ever(asker: Any) -> None:
    while True:
        asker.ask()


def test_a_strict_schema_is_asked_for_first(asker: Any) -> None:
    reply = asker.ask({"decision": "pt"})
    assert (reply.text, reply.level, reply.notes) == ('{"decision": "pt"}', "json_schema", ())
    assert asker.chat.paths == ["/v1/chat/completions"]
    assert asker.chat.requests[0]["model"] == "m1"
    spent = asker.ledger.run
    assert (spent.calls, spent.tokens_in, spent.tokens_out, spent.cost) == (1, 11, 7, None)
    assert spent.chars_sent == len(asker.messages[0]["content"])
    assert spent.seconds > 0


def test_what_worked_is_where_the_next_question_starts(asker: Any) -> None:
    asker.ask(NO_SCHEMA, NO_TEMPERATURE, OTHER_ROOM, "{}")
    reply = asker.ask("{}")
    assert (reply.level, reply.notes) == ("json_object", ())
    last = asker.chat.requests[-1]
    assert ("temperature" in last, "max_tokens" in last) == (False, False)
    assert (last["seed"], last["max_completion_tokens"]) == (0, 4096)


def test_another_process_remembers(asker: Any, tmp_path: Any) -> None:
    asker.ask(NO_SCHEMA, "{}")
    asker.store = Store(tmp_path / "home")
    assert asker.ask("{}").level == "json_object"
    assert len(asker.chat.requests) == 3


def test_another_model_or_url_does_not(asker: Any, other_chat: Any) -> None:
    asker.ask(NO_SCHEMA, "{}")
    assert asker.ask("{}", model="m2").level == "json_schema"
    asker.chat = other_chat
    assert asker.ask("{}").level == "json_schema"


@pytest.mark.parametrize(("below", "level"), list(pairwise((*FORM_LEVELS, "prompt"))))
def test_a_level_that_was_not_obeyed_is_left_for_good(asker: Any, below: str, level: str) -> None:
    assert asker.ask("{}", below=below).level == level
    assert asker.ask("{}").level == level
    assert asker.levels() == [level, level]


def test_below_a_level_that_is_left_already_changes_nothing(asker: Any) -> None:
    asker.ask("{}", below="tool")
    assert asker.ask("{}", below="json_schema").level == "prompt"


def test_what_is_refused_is_remembered_though_an_error_ends_the_question(asker: Any) -> None:
    with pytest.raises(ModelError) as caught:
        asker.ask(NO_SCHEMA, NO_TEMPERATURE, (401, {}))
    assert len(caught.value.notes) == 2
    assert caught.value.notes[0].startswith("stepped down from json_schema to json_object: ")
    assert pickle.loads(pickle.dumps(caught.value)).notes == caught.value.notes
    asker.ask("{}")
    assert asker.levels() == ["json_schema", "json_object", "json_object", "json_object"]
    assert "temperature" not in asker.chat.requests[-1]


def test_a_budget_of_two_calls_gets_down_the_ladder_process_by_process(
    asker: Any, tmp_path: Any
) -> None:
    asker.ledger = Ledger(run=Limits(calls=2))
    with pytest.raises(BudgetReached, match="2 of 2 calls") as caught:
        asker.ask(BLANK, BLANK)
    assert [one.partition(":")[0] for one in caught.value.notes] == [
        "stepped down from json_schema to json_object",
        "stepped down from json_object to tool",
    ]
    assert pickle.loads(pickle.dumps(caught.value)).notes == caught.value.notes
    asker.store, asker.ledger = Store(tmp_path / "home"), Ledger(run=Limits(calls=2))
    assert asker.ask(BLANK, "{}").level == "prompt"
    assert asker.levels() == list(FORM_LEVELS)


def test_where_no_step_works_the_next_question_starts_anew(asker: Any) -> None:
    with pytest.raises(ModelError, match="blank"):
        asker.ask(BLANK, BLANK, BLANK, BLANK)
    assert asker.ask("{}").level == "json_schema"


def test_an_endpoint_that_is_not_reached_teaches_nothing(asker: Any) -> None:
    with pytest.raises(ModelError):
        asker.ask((503, {}), retries=0)
    assert asker.store.level(asker.endpoint()) is None


def test_a_level_of_another_version_is_not_followed(asker: Any) -> None:
    asker.store.remember_form(asker.endpoint(), KnownForm(level="mind_reading"))
    assert asker.ask("{}").level == "json_schema"


def test_a_preset_says_where_to_start(asker: Any) -> None:
    assert asker.ask("{}", preset="deepseek").level == "json_object"
    asker.ask("{}", preset="openai", model="m2")
    assert asker.chat.requests[-1]["max_completion_tokens"] == 4096


def test_a_preset_does_not_hide_a_url(asker: Any) -> None:
    asker.ask("{}", preset="vllm")
    assert len(asker.chat.requests) == 1


def test_more_room_is_asked_for_and_not_remembered(asker: Any) -> None:
    reply = asker.ask(cut(), cut(tokens=400), '{"a": 1}', max_tokens=100)
    assert (reply.text, reply.cut_off) == ('{"a": 1}', False)
    asker.ask("{}", max_tokens=100)
    assert [one["max_tokens"] for one in asker.chat.requests] == [100, 400, 1600, 100]


@pytest.mark.parametrize(
    ("text", "tokens", "why"),
    [
        ('{"a', 2806, "the server's context was full after 2,806 tokens of the reply"),
        ('{"columns": [' + ", ".join(map(str, range(900))), 4096, "it repeats itself"),
        ('{"root": "' + "a.b." * 500, 4096, "it repeats itself"),
    ],
)
def test_more_room_is_not_asked_for_in_vain(asker: Any, text: str, tokens: int, why: str) -> None:
    reply = asker.ask(cut(text, tokens))
    assert (reply.cut_off, reply.notes) == (True, (f"cut off, not asked again: {why}",))


def test_a_level_that_was_seen_to_be_enforced_is_kept(asker: Any) -> None:
    asker.store.remember_form(asker.endpoint(), KnownForm(level="json_schema", enforced=True))
    assert asker.ask("{}", below="json_schema").level == "json_schema"
    refused = (400, {"error": {"message": "json_schema is not supported"}})
    assert asker.ask(refused, "{}").level == "json_object"
    known = asker.store.level(asker.endpoint())
    assert (known.level, known.enforced) == ("json_object", False)


def test_more_room_only_within_the_budget(asker: Any) -> None:
    asker.ledger = Ledger(run=Limits(tokens=8000))
    reply = asker.ask(cut(tokens=2000), max_tokens=2000)
    assert (reply.text, reply.cut_off, len(asker.chat.requests)) == ('{"a', True, 1)
    assert "not asked again: 2,100 of 8,000 tokens" in reply.notes[0]


@pytest.mark.parametrize(
    ("limits", "budget"),
    [
        (Limits(calls=2), "calls"),
        (Limits(tokens=9600), "tokens"),
        (Limits(cost=0.0096), "cost"),
        (Limits(seconds=0), "seconds"),
    ],
)
@pytest.mark.parametrize("scope", ["run", "data_set"])
def test_a_budget_stops_before_the_request(
    asker: Any, scope: str, limits: Limits, budget: str
) -> None:
    price = Price(usd_per_million_in=1, usd_per_million_out=1)
    asker.ledger = Ledger(**{scope: limits}, price=price)
    usage = {"prompt_tokens": 800, "completion_tokens": 200}
    asker.chat.always = 200, {"choices": [{"message": {"content": "{}"}}], "usage": usage}
    option = f"--llm-max-{budget}" if scope == "run" else f"--llm-per-set {budget}="
    with pytest.raises(BudgetReached, match=option):
        ask_for_ever(asker)
    spent = getattr(asker.ledger, scope)
    assert spent.calls == len(asker.chat.requests)
    assert (spent.calls > 0) is (limits.seconds is None)
    assert limits.calls is None or spent.calls <= limits.calls
    assert limits.tokens is None or spent.tokens_in + spent.tokens_out <= limits.tokens
    assert limits.cost is None or spent.cost <= limits.cost


def test_every_request_counts_not_every_question(asker: Any) -> None:
    asker.ledger = Ledger(run=Limits(calls=2))
    with pytest.raises(BudgetReached, match="2 of 2 calls"):
        asker.ask(NO_SCHEMA, (503, {}, {"retry-after-ms": "1"}), "{}")
    assert len(asker.chat.requests) == 2


def test_what_earlier_processes_spent_on_a_data_set_counts(asker: Any) -> None:
    asker.ledger = Ledger(data_set=Limits(calls=3))
    asker.ledger.open_set(Spent(calls=2))
    asker.ask("{}")
    with pytest.raises(BudgetReached, match="3 of 3 calls of this data set"):
        asker.ask("{}")
    asker.ledger.open_set(Spent())
    assert asker.ask().text == "{}"
    assert (asker.ledger.run.calls, asker.ledger.data_set.calls) == (2, 1)


def test_no_wait_past_the_time(asker: Any) -> None:
    asker.ledger = Ledger(run=Limits(seconds=20))
    with pytest.raises(BudgetReached, match=r"a wait of 30 s.*--llm-max-seconds"):
        asker.ask((429, {}, {"retry-after": "30"}))
    assert (asker.is_waiting, len(asker.chat.requests)) == ([], 1)


def test_a_reply_without_usage_is_estimated(asker: Any) -> None:
    bodies: list[Any] = [None, {"prompt_tokens": -5, "completion_tokens": "many"}, [], 10**30]
    for usage in bodies:
        before = asker.ledger.run
        asker.ask((200, {"choices": [{"message": {"content": "{}"}}], "usage": usage}))
        after = asker.ledger.run
        # The schema is sent along, so it counts.
        assert 500 < after.tokens_in - before.tokens_in < 5000
        assert 0 < after.tokens_out - before.tokens_out < 10


def test_nothing_that_is_asked_or_said_is_logged(
    asker: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with caplog.at_level(logging.INFO):
        asker.ask(NO_SCHEMA, (503, {}, {"retry-after-ms": "1"}), {"secret": "reply text"})
    for word in ("what is it", "reply text", "very-secret"):
        assert word not in caplog.text


def test_the_memory_holds_no_key_no_question_and_no_reply(
    asker: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    host = asker.chat.url.removeprefix("http://")
    asker.ask(NO_SCHEMA, {"a": "reply text"}, base_url=f"http://me:hidden@{host}?token=hidden")
    held = b"".join(one.read_bytes() for one in (tmp_path / "home").iterdir())
    assert b"json_object" in held
    for word in (b"very-secret", b"hidden", b"what is it", b"reply text"):
        assert word not in held


def test_memory_in_memory(asker: Any) -> None:
    store, ledger = Store(None), Ledger()
    asker.chat.queue = [NO_SCHEMA, "{}", "{}"]
    endpoint = asker.endpoint()
    for _ in range(2):
        reply = ask_model(endpoint, asker.messages, asker.schema, store=store, ledger=ledger)
    assert reply.level == "json_object"
    assert len(asker.chat.requests) == 3
    assert json.dumps(encode(ledger.run))
