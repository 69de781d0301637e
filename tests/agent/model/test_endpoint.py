"""Where the model is: options, environment, presets, and which key goes where."""

import pytest

from ingot.agent.model.cache import FORM_LEVELS
from ingot.agent.model.endpoint import (
    NO_KEY,
    Endpoint,
    Key,
    configured_endpoint,
    endpoint_key,
    known_preset,
    load_presets,
)
from ingot.converters.errors import ModelError

LOCAL = "http://h:1/v1"


@pytest.mark.parametrize(
    ("model", "url", "preset", "environment", "asked"),
    [
        (None, None, None, {}, None),
        ("m", None, None, {}, None),
        (None, LOCAL, None, {}, None),
        (None, None, "vllm", {}, None),
        ("m", LOCAL, None, {}, LOCAL),
        ("m", None, None, {"OPENAI_API_KEY": "k"}, "https://api.openai.com/v1"),
        (
            None,
            None,
            None,
            {"OPENAI_API_KEY": "k", "INGOT_MODEL": "m"},
            "https://api.openai.com/v1",
        ),
        (None, None, None, {"OPENAI_BASE_URL": LOCAL, "INGOT_MODEL": "m"}, LOCAL),
        ("m", None, "vllm", {}, "http://localhost:8000/v1"),
        ("m", LOCAL, "vllm", {}, LOCAL),
        ("m", None, "vllm", {"OPENAI_BASE_URL": LOCAL}, LOCAL),
        ("m", "http://g/v1", None, {"OPENAI_BASE_URL": LOCAL}, "http://g/v1"),
    ],
)
def test_when_and_where_a_model_is_asked(
    model: str | None,
    url: str | None,
    preset: str | None,
    environment: dict[str, str],
    asked: str | None,
) -> None:
    found = configured_endpoint(model, url, preset=preset, environment=environment)
    assert (found and found.url) == asked
    assert found is None or (found.model, found.preset) == ("m", preset)


def test_the_environment_names_a_preset_where_no_option_does() -> None:
    environment = {"INGOT_MODEL": "m", "INGOT_PRESET": "ollama"}
    found = configured_endpoint(None, None, environment=environment)
    assert found == Endpoint(model="m", preset="ollama")
    found = configured_endpoint(None, None, preset="vllm", environment=environment)
    assert found == Endpoint(model="m", preset="vllm")
    assert (
        configured_endpoint(None, None, environment={"INGOT_MODEL": "m", "INGOT_PRESET": ""})
        is None
    )
    with pytest.raises(ValueError, match="no preset 'vlm'"):
        configured_endpoint("m", None, environment={"INGOT_PRESET": "vlm"})


def test_an_unknown_preset_is_told_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no preset 'vlm'; there are openai, vllm, ollama"):
        configured_endpoint("m", None, preset="vlm", environment={})


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://me:secret@llm.example:8443/v1", "llm.example"),
        (None, "api.openai.com"),
        ("localhost:8000", "the endpoint"),
        ("http://[::1/v1", "the endpoint"),
        ("", "api.openai.com"),
    ],
)
def test_the_host_is_told_without_credentials(url: str | None, host: str) -> None:
    assert Endpoint(model="m", base_url=url).host == host


ANY = "OPENAI_API_KEY"
KEYS = {"OPENAI_API_KEY": "any", "DEEPSEEK_API_KEY": "own"}


@pytest.mark.parametrize(
    ("url", "preset", "environment", "sent", "variable"),
    [
        (None, "deepseek", KEYS, "own", "DEEPSEEK_API_KEY"),
        ("https://api.deepseek.com", None, KEYS, "own", "DEEPSEEK_API_KEY"),
        ("https://proxy.example/v1", "deepseek", KEYS, "any", ANY),
        ("https://proxy.example/v1", "deepseek", {"DEEPSEEK_API_KEY": "own"}, NO_KEY, ANY),
        (None, "deepseek", {"OPENAI_API_KEY": "any"}, "any", ANY),
        (None, "deepseek", {}, NO_KEY, "DEEPSEEK_API_KEY"),
        (None, None, KEYS, "any", ANY),
        (LOCAL, None, {}, NO_KEY, ANY),
        (LOCAL, "ollama", {"OPENAI_API_KEY": "any"}, "any", ANY),
        (LOCAL, None, {"OPENAI_API_KEY": " any\n"}, "any", ANY),
        (LOCAL, None, {"OPENAI_API_KEY": "  "}, NO_KEY, ANY),
    ],
)
def test_a_key_of_one_service_goes_nowhere_else(
    url: str | None, preset: str | None, environment: dict[str, str], sent: str, variable: str
) -> None:
    found = endpoint_key(Endpoint(model="m", base_url=url, preset=preset), environment)
    assert found == Key(value=sent, variable=variable)


@pytest.mark.parametrize("value", ["sk-\u00e9", "a\nb", "sk-\u200bx"])
def test_a_key_that_no_header_can_hold(value: str) -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY holds characters") as caught:
        endpoint_key(Endpoint(model="m", base_url=LOCAL), {"OPENAI_API_KEY": value})
    assert caught.value.kind == "unauthorized"
    assert value not in str(caught.value)


def test_a_public_host_is_known_without_its_preset() -> None:
    found = known_preset(Endpoint(model="m", base_url="https://api.deepseek.com/beta"))
    assert found == load_presets()["deepseek"]
    assert known_preset(Endpoint(model="m")) == load_presets()["openai"]
    assert known_preset(Endpoint(model="m", base_url="http://localhost:8000/v1")) is None


@pytest.mark.parametrize("name", ["openai", "vllm", "ollama", "llamacpp", "deepseek"])
def test_the_presets_are_whole(name: str) -> None:
    one = load_presets()[name]
    assert one.base_url.startswith("http")
    assert one.level in FORM_LEVELS
    assert one.room in ("max_tokens", "max_completion_tokens")
    assert one.name == name
    assert one.traps
    assert "OPENAI_API_KEY" in one.keys
