"""`ingot doctor`: whether ingot can work here, and what the endpoint of a model can do."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ingot.cli import model_options as m
from ingot.cli import options as o
from ingot.converters.json_yaml import encode

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.agent.doctor.checks import Check

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "skipped": "dim"}
_STATE, _NAME = 7, 14  # columns
_INDENT = 2 + _STATE + 2 + _NAME + 2


def doctor(
    model: m.ModelOption = None,
    base_url: m.BaseUrlOption = None,
    preset: m.PresetOption = None,
    as_json: o.JsonOption = False,
) -> None:
    """Check the installation, the places that are written to and the endpoint of a model.

    An endpoint is asked up to six small questions, none of which holds anything of your data.
    Exit code 1 if a check of this machine fails, 4 if one of the endpoint does.
    """
    from ingot.agent.doctor.checks import raise_if_failed
    from ingot.cli.console import print_json, stdout_console

    looked, found = _checks(model, base_url, preset), []
    if as_json:
        found = list(looked)
        print_json({"checks": [encode(one) for one in found]})
    else:
        console = stdout_console()
        for one in looked:
            _show_result(console, one, heading=not found or found[-1].group != one.group)
            found.append(one)
    raise_if_failed(found)


def _checks(model: str | None, base_url: str | None, preset: str | None) -> Iterator["Check"]:
    """Every check in turn, made when it is asked for; a wrong preset is known before the first."""
    from itertools import chain

    from ingot.agent.doctor import checks, endpoint_checks, folders
    from ingot.agent.model.cache import Store

    asked = m.endpoint(model, base_url, preset)
    of_machine = chain(checks.installation_checks(), folders.folder_checks())
    if asked is None:
        return chain(of_machine, [endpoint_checks.missing_endpoint_check(model, base_url)])
    return chain(
        of_machine, endpoint_checks.endpoint_checks(asked, Store(folders.find_state_folder()))
    )


def _show_result(console: "Console", check: "Check", *, heading: bool) -> None:
    """One check in one line, what to do below it; whole lines where it is no terminal."""
    from ingot.cli.console import plain_text

    if heading:
        console.print(plain_text(check.group.capitalize(), "bold"))
    if console.is_terminal:
        console.print(_result_row(check))
        return
    console.print(
        plain_text(f"  {check.state:{_STATE}}  {check.name:{_NAME}}  {check.figure}"),
        soft_wrap=True,
    )
    if check.hint:
        console.print(plain_text(" " * _INDENT + check.hint), soft_wrap=True)
    for note in check.notes:
        console.print(plain_text(" " * _INDENT + note), soft_wrap=True)


def _result_row(check: "Check") -> object:
    from rich.padding import Padding
    from rich.table import Table

    from ingot.cli.console import plain_text

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
