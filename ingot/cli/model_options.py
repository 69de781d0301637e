"""The options that say which model may be asked, what it may see, and what that may take."""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli.options import Mapper

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.model.budget import Limits, Price
    from ingot.agent.model.endpoint import Endpoint
    from ingot.agent.proposing.llm.model_access import AskSettings, ModelAccess

_ASK = "Asking a model"
_BUDGETS = {"calls": int, "tokens": int, "cost": float, "seconds": float}

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        envvar="INGOT_MODEL",
        help="Model of an OpenAI-compatible endpoint; the key is OPENAI_API_KEY.",
        rich_help_panel=_ASK,
        show_default=False,
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        envvar="OPENAI_BASE_URL",
        help="Root of the endpoint, such as http://localhost:8000/v1.",
        rich_help_panel=_ASK,
        show_default=False,
    ),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        envvar="INGOT_PRESET",
        help="Kind of the endpoint: openai, vllm, ollama, llamacpp, deepseek.",
        rich_help_panel=_ASK,
        show_default=False,
    ),
]


class Share(StrEnum):
    """What may leave the machine of the values."""

    none = "none"
    redacted = "redacted"
    raw = "raw"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options, as they were given."""

    model: ModelOption = None
    base_url: BaseUrlOption = None
    preset: PresetOption = None
    share_values: Annotated[
        Share,
        typer.Option(
            "--share-values",
            help="What a model sees of the values: none, secrets redacted, or as they are.",
            rich_help_panel=_ASK,
        ),
    ] = Share.redacted
    prompt_tokens: Annotated[
        int,
        typer.Option(
            "--prompt-tokens",
            metavar="N",
            min=2000,
            help="Longest first question; 2000 suits small models.",
            rich_help_panel=_ASK,
        ),
    ] = 8000
    no_llm_cache: Annotated[
        bool,
        typer.Option(
            "--no-llm-cache",
            help="Ask again, although an answer for data of this shape was accepted before.",
            rich_help_panel=_ASK,
        ),
    ] = False
    llm_max_calls: Annotated[
        int | None,
        typer.Option(
            "--llm-max-calls",
            metavar="N",
            min=0,
            help="Most requests of this run.",
            rich_help_panel=_ASK,
            show_default=False,
        ),
    ] = None
    llm_max_tokens: Annotated[
        int | None,
        typer.Option(
            "--llm-max-tokens",
            metavar="N",
            min=0,
            help="Most tokens of this run, in and out.",
            rich_help_panel=_ASK,
            show_default=False,
        ),
    ] = None
    llm_max_cost: Annotated[
        float | None,
        typer.Option(
            "--llm-max-cost",
            metavar="USD",
            min=0.0,
            help="Most that this run may cost.",
            rich_help_panel=_ASK,
            show_default=False,
        ),
    ] = None
    llm_max_seconds: Annotated[
        float | None,
        typer.Option(
            "--llm-max-seconds",
            metavar="S",
            min=0.0,
            help="Longest that this run may wait for a model.",
            rich_help_panel=_ASK,
            show_default=False,
        ),
    ] = None
    llm_per_set: Annotated[
        str | None,
        typer.Option(
            "--llm-per-set",
            metavar="LIMITS",
            help="The same per data set, runs that were taken up again included: "
            "calls=3,tokens=20000,cost=0.05,seconds=60.",
            rich_help_panel=_ASK,
            show_default=False,
        ),
    ] = None
    llm_price: Annotated[
        str | None,
        typer.Option(
            "--llm-price",
            metavar="IN,OUT",
            help="USD per million tokens, where the model is not in ingot's table.",
            rich_help_panel=_ASK,
            show_default=False,
        ),
    ] = None

    def context(self, mapper: Mapper, *, mapping: Path | None = None) -> "Context":
        """The working set of a run; asking for a model without saying which is a usage error.

        Every option is looked at, also where no model is asked: with the mapper `rules`, with a
        `mapping` of the user's, or with no model configured.
        """
        from ingot.agent.context import Context

        asked = self.ask_order(mapper, mapping=mapping)
        return Context(asking=None if asked is None else self._asking(asked))

    def ask_order(self, mapper: Mapper, *, mapping: Path | None = None) -> "AskSettings | None":
        """How a model may be asked, None where none is; looks at the options as `context` does."""
        from ingot.agent.model.budget import list_price
        from ingot.agent.proposing.llm.model_access import AskSettings

        of_run, of_set, price = (
            self._of_run(),
            _parse_limits(self.llm_per_set),
            _parse_price(self.llm_price),
        )
        asked = endpoint(self.model, self.base_url, self.preset)
        if mapping is not None or mapper is Mapper.rules:
            return None
        if asked is None:
            if mapper is Mapper.llm:
                missing = "--mapper llm needs a model: --model or INGOT_MODEL, and OPENAI_API_KEY, "
                raise typer.BadParameter(missing + "--base-url or --preset")
            return None
        price = price or list_price(asked.model)
        if price is None and (of_run.cost is not None or of_set.cost is not None):
            unknown = f"the price of {asked.model!r} is not known"
            raise typer.BadParameter(f"{unknown}: a limit in USD needs --llm-price IN,OUT")
        return AskSettings(
            endpoint=asked,
            run=of_run,
            data_set=of_set,
            price=price,
            remembered=not self.no_llm_cache,
        )

    def _of_run(self) -> "Limits":
        from ingot.agent.model.budget import OPTIONS, Limits

        for name in ("cost", "seconds"):
            given = getattr(self, f"llm_max_{name}")
            if given is not None and not isfinite(given):
                raise typer.BadParameter(f"{OPTIONS[name]} wants a number, not {given}")
        return Limits(
            calls=self.llm_max_calls,
            tokens=self.llm_max_tokens,
            cost=self.llm_max_cost,
            seconds=self.llm_max_seconds,
        )

    def _asking(self, asked: "AskSettings") -> "ModelAccess":
        from ingot.agent.model.budget import Ledger
        from ingot.agent.model.cache import Store
        from ingot.agent.proposing.llm.model_access import ModelAccess
        from ingot.agent.state import state_home
        from ingot.cli.console import plain_text, stderr_console

        return ModelAccess(
            endpoint=asked.endpoint,
            store=Store(state_home()),
            ledger=Ledger(run=asked.run, data_set=asked.data_set, price=asked.price),
            remembered=asked.remembered,
            tell=lambda said: stderr_console().print(plain_text(said)),
        )


def endpoint(model: str | None, base_url: str | None, preset: str | None) -> "Endpoint | None":
    """The endpoint of these options, None where no model could be asked."""
    from ingot.agent.model.endpoint import configured_endpoint

    try:
        return configured_endpoint(model, base_url, preset=preset)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _parse_limits(text: str | None) -> "Limits":
    """The limits of `calls=3,cost=0.05`."""
    from ingot.agent.model.budget import Limits

    given: dict[str, float] = {}
    for one in [] if text is None else text.split(","):
        name, _, value = one.partition("=")
        kind = _BUDGETS.get(name.strip())
        try:
            if name.strip() in given:
                raise ValueError(one)
            given[name.strip()] = _not_negative(kind(value) if kind else None)
        except ValueError as error:
            wanted = "--llm-per-set wants some of calls=N,tokens=N,cost=USD,seconds=S, each once"
            raise typer.BadParameter(f"{wanted}, not {one!r}") from error
    return Limits(**given)  # type: ignore[arg-type]


def _parse_price(text: str | None) -> "Price | None":
    """The price of `0.15,0.6`."""
    from ingot.agent.model.budget import Price

    if text is None:
        return None
    try:
        given, taken = (_not_negative(float(one)) for one in text.split(","))
    except ValueError as error:
        wanted = "--llm-price wants USD per million tokens in and out, such as 0.15,0.6"
        raise typer.BadParameter(f"{wanted}, not {text!r}") from error
    return Price(usd_per_million_in=given, usd_per_million_out=taken)


def _not_negative(number: float | None) -> float:
    if number is None or not 0 <= number < float("inf"):
        raise ValueError(number)
    return number
