"""The settings of asking a model: which one, what may be spent, and what is remembered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Final

from ingot.agent.model.budget import Limits, Price
from ingot.converters.errors import ConversionError
from ingot.converters.settings import Setting

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
            "Ask the model even if an accepted answer for this schema is stored.",
            section=SECTION,
        ),
    ] = False
    llm_max_calls: Annotated[
        int | None,
        Setting("Maximum number of requests.", metavar="N", section=SECTION, minimum=0),
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
            "Limits for each data set, resumed runs included: "
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
        for name in ("llm_max_cost", "llm_max_seconds"):
            value = getattr(self, name)
            if value is not None and not isfinite(value):
                raise ConversionError("", f"`{name}` takes a finite number, not {value}")

    @property
    def limits(self) -> Limits:
        """What the whole run may spend."""
        return Limits(
            calls=self.llm_max_calls,
            tokens=self.llm_max_tokens,
            cost=self.llm_max_cost,
            seconds=self.llm_max_seconds,
        )
