"""Asking a chat endpoint, against a real local server: formats, refusals, errors, secrets."""

import socket
from typing import Any

import pytest

from ingot.agent.model.budget import Ledger
from ingot.agent.model.endpoint import Endpoint, configured
from ingot.agent.model.ladder import Completion
from ingot.agent.model.ladder import ask as ask_in
from ingot.agent.model.store import Store
from ingot.converters import contracts
from ingot.converters.errors import ModelError

MESSAGES = [{"role": "user", "content": "what is it?"}]
SCHEMA = contracts.schema("llm")


def endpoint(url: str, **given: Any) -> Endpoint:
    return Endpoint(**{"model": "m1", "base_url": url, "retries": 0, **given})


def ask(given: Endpoint, messages: Any, schema: Any) -> Completion:
    return ask_in(given, messages, schema, store=Store(None), ledger=Ledger())


def refuse(status: int, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"message": message, "type": "invalid_request_error"}}


def test_a_strict_schema_is_asked_for_first(chat: Any) -> None:
    chat.queue = ["{}"]
    reply = ask(endpoint(chat.url), MESSAGES, SCHEMA)
    sent = chat.requests[0]
    assert chat.paths == ["/v1/chat/completions"]
    assert (sent["model"], sent["temperature"], sent["messages"]) == ("m1", 0, MESSAGES)
    assert sent["response_format"]["json_schema"] == {
        "name": "mapping",
        "strict": True,
        "schema": SCHEMA,
    }
    assert (reply.text, reply.cut_off, reply.format) == ("{}", False, "json_schema")
    assert (reply.tokens_in, reply.tokens_out, reply.chars_sent) == (11, 7, 11)


def test_a_server_without_schemas_is_asked_for_json_and_then_for_text(chat: Any) -> None:
    no_schema = refuse(400, "response_format type json_schema is unavailable")
    no_format = refuse(422, "unknown field response_format")
    chat.queue = [no_schema, "{}"]
    assert ask(endpoint(chat.url), MESSAGES, SCHEMA).format == "json_object"
    chat.queue = [no_schema, no_format, "{}"]
    assert ask(endpoint(chat.url), MESSAGES, SCHEMA).format == "none"
    assert "response_format" not in chat.requests[-1]


def test_a_model_without_temperature_is_asked_without(chat: Any) -> None:
    chat.queue = [refuse(400, "Unsupported value: 'temperature' does not support 0"), "{}"]
    ask(endpoint(chat.url), MESSAGES, SCHEMA)
    assert "temperature" not in chat.requests[-1]
    assert "response_format" in chat.requests[-1]


def test_a_cut_off_reply_says_so(chat: Any) -> None:
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "length",
                "message": {"role": "assistant", "content": '{"a'},
            }
        ],
    }
    chat.queue = [(200, body)]
    reply = ask(endpoint(chat.url), MESSAGES, SCHEMA)
    assert (reply.text, reply.cut_off, reply.tokens_in) == ('{"a', True, 0)


@pytest.mark.parametrize(
    ("status", "hint", "retryable"),
    [
        (401, "OPENAI_API_KEY", False),
        (403, "may not use", False),
        (404, "--model", False),
        (429, "too many requests", True),
        (503, "", True),
    ],
)
def test_refusals_say_what_to_do(chat: Any, status: int, hint: str, retryable: bool) -> None:
    chat.queue = [refuse(status, "no")]
    with pytest.raises(ModelError) as caught:
        ask(endpoint(chat.url), MESSAGES, SCHEMA)
    assert str(status) in caught.value.problem
    assert hint in caught.value.hint
    assert caught.value.retryable is retryable
    assert caught.value.exit_code == 4


def test_a_busy_server_is_asked_again(chat: Any) -> None:
    chat.extra_headers = {"retry-after-ms": "1"}
    chat.queue = [refuse(503, "busy"), "{}"]
    assert ask(endpoint(chat.url, retries=1), MESSAGES, SCHEMA).text == "{}"


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="cannot be reached") as caught:
            ask(endpoint(url), MESSAGES, SCHEMA)
    assert caught.value.retryable


def test_a_slow_server_is_not_waited_for(chat: Any) -> None:
    import time

    chat.queue = [lambda _: time.sleep(0.6) or (200, {})]
    with pytest.raises(ModelError, match="no reply within"):
        ask(endpoint(chat.url, timeout_s=0.1), MESSAGES, SCHEMA)


def test_redirects_are_refused(chat: Any) -> None:
    chat.extra_headers = {"location": "http://127.0.0.1:1/elsewhere"}
    chat.queue = [(307, {})]
    with pytest.raises(ModelError, match="307"):
        ask(endpoint(chat.url), MESSAGES, SCHEMA)


def test_a_model_that_refuses(chat: Any) -> None:
    message = {"role": "assistant", "content": None, "refusal": "I must not."}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }
    chat.queue = [(200, body)]
    with pytest.raises(ModelError, match="refused: I must not"):
        ask(endpoint(chat.url), MESSAGES, SCHEMA)


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": None}])
def test_an_endpoint_that_is_no_chat_endpoint(chat: Any, body: dict[str, Any]) -> None:
    chat.queue = [(200, body)]
    with pytest.raises(ModelError, match="no choices"):
        ask(endpoint(chat.url), MESSAGES, SCHEMA)


def test_the_key_is_sent_and_never_said(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    chat.queue = [refuse(401, "bad key sk-very-secret"), refuse(400, "key sk-very-secret is odd")]
    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            ask(endpoint(chat.url), MESSAGES, SCHEMA)
        assert "very-secret" not in str(caught.value)
    assert chat.headers[0]["authorization"] == "Bearer sk-very-secret"


def test_the_host_is_told_without_credentials() -> None:
    assert endpoint("https://me:secret@llm.example:8443/v1").host == "llm.example"
    assert Endpoint(model="m").host == "api.openai.com"


@pytest.mark.parametrize(
    ("model", "url", "environment", "there"),
    [
        (None, None, {}, False),
        ("m", None, {}, False),
        (None, "http://h/v1", {}, False),
        ("m", "http://h/v1", {}, True),
        ("m", None, {"OPENAI_API_KEY": "k"}, True),
        (None, None, {"OPENAI_API_KEY": "k", "INGOT_MODEL": "m"}, True),
        (None, None, {"OPENAI_BASE_URL": "http://h/v1", "INGOT_MODEL": "m"}, True),
    ],
)
def test_when_a_model_is_configured(
    model: str | None, url: str | None, environment: dict[str, str], there: bool
) -> None:
    found = configured(model, url, environment)
    assert (found is not None) is there
    if found:
        assert found.model == "m"
