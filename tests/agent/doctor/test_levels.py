"""What the levels of the ladder are found to be, by servers that differ in what they hold."""

import json
from typing import Any

import pytest

from ingot.agent.model.budget import Ledger
from ingot.agent.model.cache import FORM_LEVELS
from ingot.agent.model.client import ask_model

SOON = {"retry-after": "2"}
TOO_MANY = {"error": {"message": "slow down"}}


def levels(doctor: Any) -> list[str]:
    return [doctor.states()[level] for level in FORM_LEVELS if level in doctor.states()]


def test_a_server_that_holds_the_schema(doctor_of: Any) -> None:
    doctor_of.server.held = {"json_schema", "json_object", "tool"}
    found = doctor_of.look()
    assert levels(doctor_of) == ["ok", "ok", "ok", "ok"]
    assert found["json_schema"].figure.startswith("enforced; 0.")
    assert found["json_schema"].figure.endswith(" s, 31 + 6 tokens")
    assert found["begins with"].figure == "json_schema, remembered for 30 days"
    assert found["begins with"].state == "ok"
    assert doctor_of.remembered() == "json_schema"
    assert doctor_of.asked() == list(FORM_LEVELS)


def test_a_server_that_accepts_schemas_and_ignores_them(doctor_of: Any) -> None:
    found = doctor_of.look()
    assert levels(doctor_of) == ["warn", "warn", "warn", "ok"]
    assert "accepted, not enforced" in found["json_schema"].figure
    assert "accepted, no call made" in found["tool"].figure
    assert found["prompt"].figure.startswith("obeyed; ")
    assert (found["begins with"].state, doctor_of.remembered()) == ("warn", "prompt")
    assert "validates" in found["begins with"].hint


def test_a_server_that_refuses_all_but_plain_prompts(doctor_of: Any) -> None:
    doctor_of.server.refused = {"json_schema", "json_object", "tool"}
    found = doctor_of.look()
    assert levels(doctor_of) == ["skipped", "skipped", "skipped", "ok"]
    assert found["tool"].figure.startswith("refused: answered 400")
    assert doctor_of.remembered() == "prompt"


def test_blank_replies_are_passed_over(doctor_of: Any) -> None:
    doctor_of.server.refused = {"json_schema"}
    doctor_of.server.blank = {"json_object"}
    doctor_of.server.held = {"tool"}
    found = doctor_of.look()
    assert levels(doctor_of) == ["skipped", "warn", "ok", "ok"]
    assert "the reply is blank" in found["json_object"].figure
    assert doctor_of.remembered() == "tool"


def test_nothing_but_blanks_is_remembered_as_nothing(doctor_of: Any) -> None:
    doctor_of.server.blank = set(FORM_LEVELS)
    found = doctor_of.look()
    assert levels(doctor_of) == ["warn"] * 4
    assert (found["begins with"].state, doctor_of.remembered()) == ("warn", None)


def test_no_level_answers(doctor_of: Any) -> None:
    doctor_of.server.refused = set(FORM_LEVELS)
    found = doctor_of.look()
    assert (found["begins with"].state, doctor_of.remembered()) == ("fail", None)


def test_a_level_that_breaks_the_server_is_one_among_others(doctor_of: Any) -> None:
    doctor_of.server.held = {"json_object"}
    doctor_of.chat.queue = [(500, {"error": {"message": "oops"}})]
    found = doctor_of.look()
    assert levels(doctor_of) == ["warn", "ok", "warn", "ok"]
    assert "answered 500" in found["json_schema"].figure
    assert doctor_of.remembered() == "json_object"


@pytest.mark.parametrize(
    "reply",
    [
        "hello",
        '{"metal": "gold"}',
        '{"metal": "silver", "more": 1}',
        '```json\n{"metal": "silver"}\n```',
        '["silver"]',
        "{" * 5000,
    ],
)
def test_what_a_server_that_held_the_schema_would_not_say(doctor_of: Any, reply: str) -> None:
    doctor_of.chat.queue = [reply]
    assert "accepted, not enforced" in doctor_of.look()["json_schema"].figure


def test_arguments_that_are_not_held_to_the_schema(doctor_of: Any) -> None:
    call = {"function": {"name": "mapping", "arguments": '{"metal": "gold"}'}}
    message = {"content": None, "tool_calls": [call]}
    doctor_of.chat.queue = ["a", "b", (200, {"choices": [{"message": message}]})]
    figure = doctor_of.look()["tool"].figure
    assert "accepted, not enforced; " in figure
    assert figure.endswith("number of tokens unknown")


def test_a_model_that_gives_no_object(doctor_of: Any) -> None:
    doctor_of.server.plain = "Silver is a chemical element."
    found = doctor_of.look()
    assert found["prompt"].state == "warn"
    assert "answered, not obeyed" in found["prompt"].figure
    assert "--model" in found["begins with"].hint
    assert doctor_of.remembered() is None


def test_refusals_and_replies_that_are_cut_off(doctor_of: Any) -> None:
    refusal = {"message": {"content": None, "refusal": "I would rather not."}}
    thinking = {"finish_reason": "length", "message": {"content": ""}}
    doctor_of.chat.queue = [(200, {"choices": [one]}) for one in (refusal, thinking)]
    found = doctor_of.look()
    assert "the model refuses" in found["json_schema"].figure
    assert "accepted; 2,048 tokens are too few" in found["json_object"].figure


def test_parameters_that_are_refused_are_left_out_of_what_follows(doctor_of: Any) -> None:
    doctor_of.server.held = {"json_schema"}
    doctor_of.chat.queue = [
        (400, {"error": {"message": "temperature does not support 0"}}),
        (400, {"error": {"message": "max_tokens is not supported, use max_completion_tokens"}}),
    ]
    doctor_of.look()
    assert doctor_of.asked() == ["json_schema"] * 3 + ["json_object", "tool", "prompt"]
    last = doctor_of.chat.requests[-1]
    assert ("temperature" in last, last["max_completion_tokens"]) == (False, 2048)
    known = doctor_of.store.level(doctor_of.endpoint())
    assert (known.dropped, known.room) == (("temperature",), "max_completion_tokens")


def test_never_more_than_six_questions(doctor_of: Any) -> None:
    doctor_of.server.held = {"json_schema"}
    doctor_of.chat.queue = [
        (400, {"error": {"message": "temperature does not support 0"}}),
        (400, {"error": {"message": "max_tokens is not supported, use max_completion_tokens"}}),
        (400, {"error": {"message": "seed is not supported"}}),
    ]
    found = doctor_of.look()
    assert len(doctor_of.chat.requests) == 6
    assert found["prompt"].figure == "not asked: 6 requests are made"
    assert found["prompt"].state == "warn"
    assert doctor_of.remembered() == "json_schema"


def test_a_short_wait_is_waited_for_once(doctor_of: Any) -> None:
    doctor_of.server.held = {"json_schema"}
    doctor_of.chat.queue = [(429, TOO_MANY, SOON)]
    assert doctor_of.look()["json_schema"].state == "ok"
    assert doctor_of.is_waiting == [2.0]
    doctor_of.chat.queue = [(429, TOO_MANY, SOON)] * 2
    assert doctor_of.look()["json_schema"].state == "fail"
    assert doctor_of.is_waiting == [2.0, 2.0]


@pytest.mark.parametrize("headers", [{}, {"retry-after": "6"}, {"retry-after": "600"}])
def test_a_long_wait_is_not(doctor_of: Any, headers: dict[str, str]) -> None:
    doctor_of.chat.queue = [(429, TOO_MANY, headers)]
    found = doctor_of.look()
    assert (found["json_schema"].state, doctor_of.is_waiting) == ("fail", [])
    assert len(doctor_of.chat.requests) == 1


def test_what_was_found_before_the_limit_of_a_server_counts(doctor_of: Any) -> None:
    doctor_of.server.held = {"json_schema"}
    hold = json.dumps({"metal": "silver"})
    doctor_of.chat.queue = [hold, "hello", (429, TOO_MANY)]
    found = doctor_of.look()
    assert found["tool"].state == "warn"
    assert "prompt" not in found
    assert (found["begins with"].state, doctor_of.remembered()) == ("ok", "json_schema")


def test_an_unknown_model_ends_it(doctor_of: Any) -> None:
    doctor_of.chat.always = (404, {"error": {"message": "The model `m3` does not exist"}})
    found = doctor_of.look(model="m3")
    assert (found["json_schema"].state, len(doctor_of.chat.requests)) == ("fail", 1)
    assert "--model" in found["json_schema"].hint
    assert "begins with" not in found


@pytest.mark.parametrize(
    "answer",
    [
        (307, {}, {"location": "https://elsewhere.example.com/v1/chat/completions"}),
        (403, {"error": {"message": "no"}}),
        (402, {"error": {"message": "Insufficient Balance"}}),
        (404, b"<html>Not Found</html>", {"content-type": "text/html"}),
        (200, b"<html>Welcome</html>", {"content-type": "text/html"}),
        (200, {"choices": []}),
        (0, lambda handler: handler.connection.close()),
    ],
)
def test_what_another_question_would_not_mend_ends_it(doctor_of: Any, answer: Any) -> None:
    doctor_of.chat.always = answer
    found = doctor_of.look()
    assert (found["json_schema"].state, len(doctor_of.chat.requests)) == ("fail", 1)
    assert (list(found)[-1], doctor_of.remembered()) == ("sent", None)


def test_the_ladder_begins_where_the_doctor_said(doctor_of: Any) -> None:
    doctor_of.server.held = {"tool"}
    doctor_of.look()
    question = [{"role": "user", "content": "what is it? Answer in json."}]
    reply = ask_model(doctor_of.endpoint(), question, {}, store=doctor_of.store, ledger=Ledger())
    assert reply.level == "tool"


def test_what_was_sent_is_told(doctor_of: Any) -> None:
    figure = doctor_of.look()["sent"].figure
    chars = sum(len(one["messages"][0]["content"]) for one in doctor_of.chat.requests)
    assert figure == f"4 questions, {chars} characters; nothing of your data"


def test_a_memory_that_cannot_be_used_spoils_nothing_else(doctor_of: Any, tmp_path: Any) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "models.sqlite").write_text("no database")
    doctor_of.server.held = {"json_schema"}
    found = doctor_of.look()
    assert found["begins with"].state == "warn"
    assert "json_schema, not remembered: cannot be used" in found["begins with"].figure
