"""`ingot doctor`: check the installation and a model's endpoint."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from ingot.agent.model.endpoint import EndpointSettings
from ingot.cli import command as o
from ingot.cli.command import command_options
from ingot.cli.console import plain_text, print_json, stdout_console
from ingot.cli.model_options import find_endpoint
from ingot.converters.json_yaml import encode

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.agent.doctor.checks import Check

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "skipped": "dim"}
_STATE, _NAME = 7, 14  # columns
_INDENT = 2 + _STATE + 2 + _NAME + 2


@command_options
def doctor(ctx: typer.Context, endpoint: EndpointSettings, as_json: o.Json = False) -> None:
    """Check the installation, the folders that ingot writes to, and a model's endpoint.

    An endpoint gets up to six small questions, none of which contains your data.
    The exit code is 1 if a check of this machine fails, 4 if a check of the endpoint fails.
    """
    from ingot.agent.doctor.checks import raise_if_failed

    results, shown = _checks(endpoint, ctx.find_root()), []
    if as_json:
        shown = list(results)
        print_json({"checks": [encode(one) for one in shown]})
    else:
        console = stdout_console()
        for one in results:
            _show_result(console, one, heading=not shown or shown[-1].group != one.group)
            shown.append(one)
    raise_if_failed(shown)


def _checks(settings: EndpointSettings, root: Any) -> Iterator["Check"]:  # noqa: ANN401
    """Return the checks, each run when it is asked for; a wrong preset raises at once."""
    from itertools import chain

    from ingot.agent.doctor import checks, endpoint_checks
    from ingot.agent.model.cache import Store

    endpoint = find_endpoint(settings)
    configuration = _configuration_checks(root)
    of_machine = chain(checks.installation_checks(), configuration, checks.folder_checks())
    if endpoint is None:
        return chain(
            of_machine, [endpoint_checks.missing_endpoint_check(settings.model, settings.base_url)]
        )
    return chain(
        of_machine, endpoint_checks.endpoint_checks(endpoint, Store(checks.find_state_folder()))
    )


def _configuration_checks(root: Any) -> Iterator["Check"]:  # noqa: ANN401
    """Return the configured values that hold, where they come from, and for which commands."""
    from ingot.agent.doctor.checks import Check
    from ingot.agent.privacy import redact
    from ingot.cli.configuration import list_configured

    chosen = root.params.get("config"), root.params.get("profile")
    for flag, value, origin in list_configured(root.command, *chosen):
        yield Check("configuration", flag, "ok", f"{redact(value)}  {origin}")


def _show_result(console: "Console", check: "Check", *, heading: bool) -> None:
    if heading:
        console.print(plain_text(check.group.capitalize(), "bold"))
    if console.is_terminal:
        console.print(_result_row(check))
        return
    console.print(
        plain_text(f"  {check.state:{_STATE}}  {check.name:{_NAME}}  {check.figure}"),
        soft_wrap=True,
    )
    for line in filter(None, (check.hint, *check.notes)):
        console.print(plain_text(" " * _INDENT + line), soft_wrap=True)


def _result_row(check: "Check") -> object:
    from rich.padding import Padding
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(width=_STATE)
    table.add_column(width=_NAME)
    table.add_column(overflow="fold")
    table.add_row(
        plain_text(check.state, _STYLES[check.state]),
        plain_text(check.name),
        plain_text(check.figure),
    )
    if check.hint:
        table.add_row("", "", plain_text(check.hint, "dim" if check.state == "skipped" else "cyan"))
    for note in check.notes:
        table.add_row("", "", plain_text(note, "dim"))
    return Padding(table, (0, 0, 0, 2))
