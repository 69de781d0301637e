"""Options that several commands share, as one parameter: a dataclass whose fields are options."""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

Command = Callable[..., None]


def expands(command: Command) -> Command:
    """The command with every parameter that is a dataclass replaced by the dataclass's fields.

    The fields are `Annotated` with typer's options and have defaults; the command is called with
    the dataclass made of them.
    """
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {n: kind for n, kind in hints.items() if is_dataclass(kind)}

    @functools.wraps(command)
    def called(**given: Any) -> None:  # noqa: ANN401
        for name, kind in groups.items():
            names = [field.name for field in fields(kind)]
            given[name] = kind(**{one: given.pop(one) for one in names})
        command(**given)

    shown = [one for each in signature.parameters.values() for one in _expanded(each, groups)]
    called.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in shown}
    return called


def _expanded(parameter: inspect.Parameter, groups: dict[str, Any]) -> Iterator[inspect.Parameter]:
    """The parameter itself, or one for every field of its dataclass."""
    if parameter.name not in groups:
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    kind = groups[parameter.name]
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=hints[field.name],
        )
