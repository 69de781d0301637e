"""Checks of an endpoint before it is asked anything: address, key, answer, list of models."""

import socket
from typing import Any

import pytest

from ingot.agent.doctor import endpoint_checks as doctor

HOST = "http://models.example.com/v1"


def test_all_is_well(doctor_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    doctor_of.server.held = {"json_schema", "json_object", "tool"}
    found = doctor_of.look()
    assert set(doctor_of.states().values()) == {"ok"}
    assert {one.group for one in doctor_of.found} == {"endpoint"}
    assert found["address"].figure == doctor_of.chat.url
    assert found["key"].figure == "OPENAI_API_KEY is set, and sent"
    assert found["model"].figure == "m1: one of 2 that it lists"
    assert doctor_of.chat.got == ["/v1/models"]
    assert "very-secret" not in str(doctor_of.found)


@pytest.mark.parametrize(
    ("said", "figure", "hint"),
    [
        ({"max_model_len": 131072}, "131,072 tokens", ""),
        (
            {"meta": {"n_ctx": 8192}},
            "8,192 tokens: a question needs up to 8,000 and its reply 4,096",
            "--prompt-tokens 4000 fits; or give the server a larger one",
        ),
        (
            {"meta": {"n_ctx": 4096}},
            "4,096 tokens: a question needs up to 8,000 and its reply 4,096",
            "no prompt of ingot fits; or give the server a larger one",
        ),
        ({"max_model_len": "many", "meta": 7}, None, ""),
    ],
)
def test_a_context_that_is_too_small_is_told_before_a_question_fails(
    doctor_of: Any, said: dict[str, Any], figure: str | None, hint: str
) -> None:
    doctor_of.chat.models = (200, {"data": [{"id": "m1", **said}, {"id": "m2"}]})
    found = doctor_of.look().get("context")
    assert (found and found.figure) == figure
    assert found is None or (found.state == ("warn" if hint else "ok") and found.hint == hint)


def test_nothing_is_configured() -> None:
    check = doctor.missing_endpoint_check(None, None)
    assert (check.state, check.figure) == ("skipped", "none configured: the rules serve offline")


@pytest.mark.parametrize(
    ("model", "url", "hint"), [("m", None, "--base-url"), (None, "http://u:p@h/v1", "--model")]
)
def test_half_of_it_is_configured(model: str | None, url: str | None, hint: str) -> None:
    check = doctor.missing_endpoint_check(model, url)
    assert (check.state, hint in check.hint) == ("warn", True)
    assert "u:p" not in check.figure


@pytest.mark.parametrize(
    ("url", "state", "hint"),
    [
        ("ftp://models.example.com/v1", "fail", "http://localhost:8000/v1"),
        ("models.example.com/v1", "fail", "http://localhost:8000/v1"),
        ("http://[::1/v1", "fail", "http://localhost:8000/v1"),
    ],
)
def test_an_address_that_cannot_be_asked(doctor_of: Any, url: str, state: str, hint: str) -> None:
    found = doctor_of.look(base_url=url)
    assert list(found) == ["address"]
    assert (found["address"].state, hint in found["address"].hint) == (state, True)


@pytest.mark.parametrize(
    ("url", "state", "hint"),
    [
        (HOST, "warn", "in the clear"),
        ("http://192.168.1.7:8000/v1", "warn", "in the clear"),
        ("https://models.example.com/v1", "ok", ""),
        ("http://127.0.0.2:8000/v1", "ok", ""),
        ("http://[::1]:8000/v1", "ok", ""),
        ("http://localhost:8000/v1", "ok", ""),
        ("https://models.example.com/v1/chat/completions", "warn", "root"),
    ],
)
def test_an_address(doctor_of: Any, url: str, state: str, hint: str) -> None:
    check = next(doctor.endpoint_checks(doctor_of.endpoint(base_url=url), doctor_of.store))
    assert (check.state, hint in check.hint) == (state, True)


def test_what_may_be_secret_in_an_address_is_not_shown(doctor_of: Any) -> None:
    url = "https://me:hidden@models.example.com:8443/v1?token=hidden#hidden"
    check = next(doctor.endpoint_checks(doctor_of.endpoint(base_url=url), doctor_of.store))
    assert check.figure == "https://models.example.com:8443/v1"


def test_a_key_that_no_header_can_hold(doctor_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "“sk-very-secret”")
    found = doctor_of.look()
    assert (found["key"].state, list(found)) == ("fail", ["address", "key"])
    assert "very-secret" not in str(found)


def test_no_key_for_a_host_elsewhere(doctor_of: Any) -> None:
    looked = doctor.endpoint_checks(doctor_of.endpoint(base_url=HOST), doctor_of.store)
    _, secret = next(looked), next(looked)
    assert (secret.name, secret.state) == ("key", "warn")


def test_a_model_that_is_not_listed(doctor_of: Any) -> None:
    doctor_of.chat.models = (200, {"data": [{"id": "qwen3-8b"}, {"id": "llama-3.1-8b"}, {}, 7]})
    check = doctor_of.look(model="qwen3:8b")["model"]
    assert (check.state, check.figure) == ("warn", "qwen3:8b: not among the 2 that it lists")
    assert check.hint.startswith("nearest: qwen3-8b")


def test_a_name_cannot_look_like_a_check(doctor_of: Any) -> None:
    doctor_of.chat.models = (200, {"data": [{"id": "m\n  ok       key " + "x" * 500}]})
    hint = doctor_of.look(model="another")["model"].hint
    assert hint.startswith("nearest: m ok key xxx")
    assert len(hint) < 80


@pytest.mark.parametrize(
    "models",
    [
        None,
        (405, {}),
        (200, {"data": 7}),
        (200, {"data": []}),
        (200, {"object": "list"}),
        (200, b"<html>"),
        (200, b"x" * (9 << 20)),
        (500, {"error": "oops"}),
    ],
)
def test_a_server_without_a_list_is_asked_nevertheless(doctor_of: Any, models: Any) -> None:
    doctor_of.chat.models = models
    found = doctor_of.look()
    assert (found["reachable"].state, found["model"].state) == ("ok", "skipped")
    assert len(doctor_of.chat.requests) == 4


def test_a_key_that_is_not_accepted(doctor_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    doctor_of.chat.models = (401, {"error": {"message": "Incorrect API key: sk-very-secret"}})
    found = doctor_of.look()
    assert found["reachable"].state == "fail"
    assert "OPENAI_API_KEY" in found["reachable"].hint
    assert "very-secret" not in str(found)
    assert doctor_of.chat.requests == []


def test_a_key_that_may_list_and_not_ask(doctor_of: Any) -> None:
    doctor_of.chat.always = (401, {"error": {"message": "no"}})
    found = doctor_of.look()
    assert found["reachable"].state == "ok"
    assert (found["json_schema"].state, len(doctor_of.chat.requests)) == ("fail", 1)


def test_nobody_is_there(doctor_of: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = doctor_of.look(base_url=f"http://127.0.0.1:{free.getsockname()[1]}/v1")
    assert list(found) == ["address", "key", "reachable"]
    assert found["reachable"].state == "fail"


def test_a_redirect_is_not_followed(doctor_of: Any, other_chat: Any) -> None:
    to = {"location": f"{other_chat.url}/models"}
    doctor_of.chat.models = (307, {}, to)
    found = doctor_of.look()
    assert found["reachable"].state == "fail"
    assert "a redirect to 127.0.0.1" in found["reachable"].figure
    assert (other_chat.got, doctor_of.chat.requests) == ([], [])


def test_a_server_that_hangs(doctor_of: Any) -> None:
    doctor_of.chat.models = (0, lambda _: doctor_of.chat.closing.wait())
    found = doctor_of.look(timeout_s=0.2)
    assert list(found) == ["address", "key", "reachable"]
    assert "no complete reply within 0.2 s" in found["reachable"].figure


def test_a_model_that_hangs(doctor_of: Any) -> None:
    doctor_of.chat.always = (0, lambda _: doctor_of.chat.closing.wait())
    found = doctor_of.look(timeout_s=0.2)
    assert found["json_schema"].state == "fail"
    assert "is the model loaded?" in found["json_schema"].hint
    assert len(doctor_of.chat.requests) == 1


def test_a_model_that_is_loading_is_waited_for_by_people(doctor_of: Any) -> None:
    loading = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    doctor_of.chat.models = (503, loading)
    found = doctor_of.look()
    assert list(found)[-1] == "reachable"
    assert found["reachable"].state == "fail"
    assert found["reachable"].hint == "the server is still loading its model: wait, and try again"
    assert doctor_of.chat.requests == []
