"""Where the model is: name, base URL, preset. Keys are read from the environment at every call."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from json import loads
from urllib.parse import urlsplit

from ingot.converters.errors import ModelError
from ingot.converters.json_yaml import decode

DEFAULT_ROOM = 4096
_DEFAULT = "openai"
_ANY_KEY = "OPENAI_API_KEY"
NO_KEY = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """What is known of a kind of server.

    Attributes:
        base_url: the root of its API where none is given.
        keys: environment variables of the key, the first that is set counts.
    """

    name: str
    base_url: str
    level: str
    room: str
    keys: tuple[str, ...]
    traps: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """The key of an endpoint.

    Attributes:
        value: the key, `NO_KEY` where none is set.
        variable: the environment variable that it is in; where none is set, the one to set.
    """

    value: str
    variable: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where the model is and the limits of one request.

    Attributes:
        base_url: root of an OpenAI-compatible API; None = the preset's, else OpenAI's.
        timeout_s: the most seconds that one request may take as a whole.
        preset: name of what is known of the server, None = nothing is.
    """

    model: str
    base_url: str | None = None
    timeout_s: float = 120.0
    retries: int = 2
    max_tokens: int = DEFAULT_ROOM
    preset: str | None = None

    @property
    def url(self) -> str:
        """The root of the API that is asked."""
        return self.base_url or load_presets()[self.preset or _DEFAULT].base_url

    @property
    def host(self) -> str:
        """The host for people and reports, without user, password and path."""
        return url_host(self.url)


def load_presets() -> dict[str, Preset]:
    """What is known of servers, by name."""
    return dict(_read_presets())


def configured_endpoint(
    model: str | None,
    base_url: str | None,
    *,
    preset: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Endpoint | None:
    """The endpoint that options and environment describe; None where no model could be asked.

    `INGOT_MODEL`, `OPENAI_BASE_URL` and `INGOT_PRESET` stand in for the options. A base URL wins
    over a preset's. Besides the model a key, a base URL or a preset is needed, as local servers
    want no key.
    """
    preset = preset or environment.get("INGOT_PRESET") or None
    if preset is not None and preset not in _read_presets():
        raise ValueError(f"no preset {preset!r}; there are {', '.join(_read_presets())}")
    name = model or environment.get("INGOT_MODEL")
    url = base_url or environment.get("OPENAI_BASE_URL") or None
    if not name or not (url or preset or environment.get(_ANY_KEY)):
        return None
    return Endpoint(model=name, base_url=url, preset=preset)


def known_preset(endpoint: Endpoint) -> Preset | None:
    """What is known of the server: the named preset, else one whose public host is asked."""
    if endpoint.preset:
        return _read_presets()[endpoint.preset]
    for one in _read_presets().values():
        if url_host(one.base_url) == endpoint.host != "localhost":
            return one
    return None


def endpoint_key(endpoint: Endpoint, environment: Mapping[str, str] = os.environ) -> Key:
    """The key for this endpoint, and where it comes from.

    A key of one service (`DEEPSEEK_API_KEY`) goes to that service's host only, `OPENAI_API_KEY` to
    whatever endpoint is named.
    """
    preset = known_preset(endpoint)
    own = preset.keys if preset and url_host(preset.base_url) == endpoint.host else ()
    names = tuple(dict.fromkeys((*own, _ANY_KEY)))
    for name in names:
        value = environment.get(name, "").strip()
        if value and not (value.isascii() and value.isprintable()):
            problem = f"the key in {name} holds characters that no key has"
            raise ModelError(endpoint.host, problem, f"set {name} again", kind="unauthorized")
        if value:
            return Key(value=value, variable=name)
    return Key(value=NO_KEY, variable=names[0])


def url_host(url: str) -> str:
    """The host of a URL, without user, password, port and path."""
    try:
        return urlsplit(url).hostname or "the endpoint"
    except ValueError:
        return "the endpoint"


def service_url(url: str) -> str:
    """What names the service: its base URL without user, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the base URL"
    where = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    return where.geturl()


@cache
def _read_presets() -> dict[str, Preset]:
    table = loads((files(__package__) / "presets.json").read_bytes())
    return {name: decode(Preset, {"name": name, **one}) for name, one in table.items()}
