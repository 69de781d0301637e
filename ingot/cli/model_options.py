"""From the settings of a model to what a run asks with."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from ingot.agent.model.endpoint import EndpointSettings, ModelSettings
from ingot.cli.command import SettingError

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.model.endpoint import Endpoint
    from ingot.agent.proposing.llm.mapper import AskSettings, ModelAccess


def run_context(settings: ModelSettings, mapper: str) -> "Context":
    """Return the working set of a run, with access to a model where the mapper may ask one."""
    from ingot.agent.context import Context

    return Context(asking=find_model(settings, mapper))


def find_model(settings: ModelSettings, mapper: str) -> "ModelAccess | None":
    """Return the access to a model, None where the mapper may not ask one."""
    from ingot.agent.context import open_model
    from ingot.cli.console import note_line

    model_settings = ask_settings(settings, mapper)
    return open_model(model_settings, tell=note_line) if model_settings else None


def ask_settings(settings: ModelSettings, mapper: str) -> "AskSettings | None":
    """Return how a model may be asked, None where none is; a model is needed for `llm`.

    Every setting is checked, also where no model is asked.
    """
    from ingot.agent.model.budget import list_price
    from ingot.cli.console import note_line

    endpoint = find_endpoint(settings)
    if mapper in ("rules", "file"):
        return None
    if endpoint is None:
        model_name = settings.model or os.environ.get("INGOT_MODEL")
        asked = "--model or INGOT_MODEL, and " if not model_name else f"for {model_name} set "
        missing = f"{asked}OPENAI_API_KEY, or --base-url or --preset of a server without a key"
        if mapper == "llm":
            raise SettingError(f"--mapper llm needs a model: {missing}", "mapper")
        if model_name:
            note_line(f"no model is asked: {missing}")
        return None
    price = settings.llm_price or list_price(endpoint.model)
    has_cost_limit = (settings.llm_max_cost, settings.llm_per_set.cost) != (None, None)
    if price is None and has_cost_limit:
        unknown = f"the price of {endpoint.model!r} is not known"
        raise typer.BadParameter(f"{unknown}: a limit in USD needs --llm-price IN,OUT")
    from ingot.agent.proposing.llm.mapper import AskSettings

    return AskSettings(
        endpoint=replace(endpoint, timeout_s=settings.llm_timeout),
        run=settings.limits,
        data_set=settings.llm_per_set,
        price=price,
        remembered=not settings.no_llm_cache,
    )


def find_endpoint(settings: EndpointSettings) -> "Endpoint | None":
    """Return the endpoint of the settings and the environment, None where none is configured."""
    from ingot.agent.model.endpoint import configured_endpoint

    try:
        return configured_endpoint(settings.model, settings.base_url, preset=settings.preset)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
