"""Where the model is, by settings and presets, and what it may cost; keys are read at each call."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from json import loads
from math import isfinite
from typing import Annotated, Final
from urllib.parse import urlsplit

from ingot.agent.model.budget import Limits, Price
from ingot.converters.errors import ConversionError, ModelError
from ingot.converters.json_yaml import decode
from ingot.converters.settings import Setting

DEFAULT_ROOM = 4096
_DEFAULT = "openai"
_ANY_KEY = "OPENAI_API_KEY"
NO_KEY = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """What is known of a kind of server; of its `keys`, variables, the first that is set counts.

    Attributes:
        dropped: what a question leaves out from the beginning, as in `KnownForm`.
        object_schema: whether `json_object` takes a schema, and holds a reply to it.
        forced_call: the word that forces a tool call where a function's name is not understood.
    """

    name: str
    base_url: str
    level: str
    room: str
    keys: tuple[str, ...]
    traps: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    object_schema: bool = False
    forced_call: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """The key of an endpoint, `NO_KEY` = none, and the variable that it is in or belongs in."""

    value: str
    variable: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where the model is and the limits of one request.

    `base_url` None = the preset's, else OpenAI's; after `timeout_s` without a word of the reply a
    request is given up.
    """

    model: str
    base_url: str | None = None
    timeout_s: float = 120.0
    retries: int = 2
    max_tokens: int = DEFAULT_ROOM
    preset: str | None = None

    @property
    def url(self) -> str:
        """Return the root of the API that is asked."""
        return self.base_url or load_presets()[self.preset or _DEFAULT].base_url

    @property
    def host(self) -> str:
        """Return the host for people and reports, without user, password and path."""
        return url_host(self.url)


@cache
def load_presets() -> Mapping[str, Preset]:
    """Return what is known of servers, by name."""
    table = loads((files(__package__) / "presets.json").read_bytes())
    return {name: decode(Preset, {"name": name, **fields}) for name, fields in table.items()}


def configured_endpoint(
    model: str | None,
    base_url: str | None,
    *,
    preset: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Endpoint | None:
    """Return the endpoint that options and environment describe, None if no model can be asked.

    `INGOT_MODEL`, `OPENAI_BASE_URL` and `INGOT_PRESET` replace missing options. A base URL wins
    over that of a preset. Besides the model, a key, a base URL or a preset is needed: local servers
    want no key.
    """
    preset = preset or environment.get("INGOT_PRESET") or None
    if preset is not None and preset not in load_presets():
        raise ValueError(f"no preset {preset!r}; there are {', '.join(load_presets())}")
    name = model or environment.get("INGOT_MODEL")
    url = base_url or environment.get("OPENAI_BASE_URL") or None
    if not name or not (url or preset or environment.get(_ANY_KEY)):
        return None
    return Endpoint(model=name, base_url=url, preset=preset)


def known_preset(endpoint: Endpoint) -> Preset | None:
    """Return what is known of the server: the named preset, else one whose public host is asked."""
    if endpoint.preset:
        return load_presets()[endpoint.preset]
    for preset in load_presets().values():
        if url_host(preset.base_url) == endpoint.host != "localhost":
            return preset
    return None


def endpoint_key(endpoint: Endpoint, environment: Mapping[str, str] = os.environ) -> Key:
    """Return the key for this endpoint, and where it comes from.

    A key of one service (`DEEPSEEK_API_KEY`) goes to that service's host only, `OPENAI_API_KEY` to
    whatever endpoint is named.
    """
    preset = known_preset(endpoint)
    key_names = preset.keys if preset and url_host(preset.base_url) == endpoint.host else ()
    names = tuple(dict.fromkeys((*key_names, _ANY_KEY)))
    for name in names:
        value = environment.get(name, "").strip()
        if value and not (value.isascii() and value.isprintable()):
            problem = f"the key in {name} holds characters that no key has"
            raise ModelError(endpoint.host, problem, f"set {name} again", kind="unauthorized")
        if value:
            return Key(value=value, variable=name)
    return Key(value=NO_KEY, variable=names[0])


def url_host(url: str) -> str:
    """Return the host of a URL, without user, password, port and path."""
    try:
        return urlsplit(url).hostname or "the endpoint"
    except ValueError:
        return "the endpoint"


def service_url(url: str) -> str:
    """Return what names the service: its base URL without user, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the base URL"
    where = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    return where.geturl()


SECTION: Final = "Model"
_NO_LIMITS: Final = Limits()
_BUDGETS: Final[Mapping[str, Callable[[str], float]]] = {
    "calls": int,
    "tokens": int,
    "cost": float,
    "seconds": float,
}


def _read_limits(text: str) -> Limits:
    """Return the limits of `calls=3,cost=0.05`."""
    limits: dict[str, float] = {}
    for item in text.split(","):
        name, _, value = item.partition("=")
        try:
            if name.strip() in limits:
                raise ValueError(item)
            limits[name.strip()] = _amount(_BUDGETS[name.strip()](value))
        except (KeyError, ValueError) as error:
            wanted = "write some of calls=N,tokens=N,cost=USD,seconds=S, each once"
            raise ValueError(f"{wanted}, not {item!r}") from error
    return Limits(**limits)  # type: ignore[arg-type]


def _read_price(text: str) -> Price:
    """Return the price of `0.15,0.6`."""
    try:
        price_in, price_out = (_amount(float(item)) for item in text.split(","))
    except ValueError as error:
        wanted = "write USD per million tokens in and out, such as 0.15,0.6"
        raise ValueError(f"{wanted}, not {text!r}") from error
    return Price(usd_per_million_in=price_in, usd_per_million_out=price_out)


def _amount(number: float) -> float:
    if not 0 <= number < float("inf"):
        raise ValueError(number)
    return number


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointSettings:
    """Which model is asked, and where."""

    model: Annotated[
        str | None,
        Setting(
            "Model of an OpenAI-compatible endpoint; its key is read from OPENAI_API_KEY.",
            metavar="NAME",
            section=SECTION,
            environment="INGOT_MODEL",
        ),
    ] = None
    base_url: Annotated[
        str | None,
        Setting(
            "Root of the endpoint, such as http://localhost:8000/v1.",
            metavar="URL",
            section=SECTION,
            environment="OPENAI_BASE_URL",
        ),
    ] = None
    preset: Annotated[
        str | None,
        Setting(
            "Kind of the endpoint: openai, vllm, ollama, llamacpp, deepseek.",
            metavar="NAME",
            section=SECTION,
            environment="INGOT_PRESET",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSettings(EndpointSettings):
    """Also what may be spent, and whether accepted answers are used again."""

    no_llm_cache: Annotated[
        bool,
        Setting(
            "Ask the model even if an accepted answer for this schema is stored.", section=SECTION
        ),
    ] = False
    llm_timeout: Annotated[
        float,
        Setting(
            "Seconds without a word of the model after which a request is given up.",
            metavar="S",
            section=SECTION,
            minimum=0.1,
        ),
    ] = 120.0
    llm_max_calls: Annotated[
        int | None,
        Setting("Maximum number of requests of the run.", metavar="N", section=SECTION, minimum=0),
    ] = None
    llm_max_tokens: Annotated[
        int | None,
        Setting("Maximum number of tokens, in and out.", metavar="N", section=SECTION, minimum=0),
    ] = None
    llm_max_cost: Annotated[
        float | None, Setting("Maximum cost in USD.", metavar="USD", section=SECTION, minimum=0.0)
    ] = None
    llm_max_seconds: Annotated[
        float | None,
        Setting(
            "Maximum total waiting time in seconds.", metavar="S", section=SECTION, minimum=0.0
        ),
    ] = None
    llm_per_set: Annotated[
        Limits,
        Setting(
            "Limits for one data set, in a run and its resumptions together: "
            "calls=3,tokens=20000,cost=0.05,seconds=60.",
            metavar="LIMITS",
            section=SECTION,
            default="no limits",
            parse=_read_limits,
        ),
    ] = _NO_LIMITS
    llm_price: Annotated[
        Price | None,
        Setting(
            "Price in USD per million tokens, in and out.",
            metavar="IN,OUT",
            section=SECTION,
            default="the model's list price, if known",
            parse=_read_price,
        ),
    ] = None

    def __post_init__(self) -> None:
        for name in ("llm_max_cost", "llm_max_seconds", "llm_timeout"):
            value = getattr(self, name)
            if value is not None and not isfinite(value):
                raise ConversionError("", f"`{name}` takes a finite number, not {value}")

    @property
    def limits(self) -> Limits:
        """Return what the whole run may spend."""
        return Limits(
            calls=self.llm_max_calls,
            tokens=self.llm_max_tokens,
            cost=self.llm_max_cost,
            seconds=self.llm_max_seconds,
        )
