"""Commands are built from the settings classes: same names, defaults, values and help."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from ingot.agent.lake.lake_order import LakeOrder
from ingot.agent.model.endpoint import EndpointSettings, ModelSettings
from ingot.agent.proposing.order import Order
from ingot.agent.review.git_repository import ReviewOptions
from ingot.cli.app import app
from ingot.cli.command import Command, Commands, Later, Only, command_options
from ingot.converters.errors import ConversionError, CountsReviewNeeded, IngotError
from ingot.converters.export.options import TRAINER_NAMES, ExportOptions
from ingot.converters.export.trainers import TRAINERS
from ingot.converters.megatron.options import BuildOptions, WatchOptions, WorkOptions
from ingot.converters.recsys.criteo.preprocess.settings import Settings as CriteoSettings
from ingot.converters.recsys.ctr.settings import ChosenColumns, Overrides, RawFiles
from ingot.converters.recsys.monolith.convert.settings import Filters
from ingot.converters.recsys.monolith.convert.settings import Settings as MonolithSettings
from ingot.converters.recsys.monolith.frames.framing import StreamHints
from ingot.converters.settings import DeclaredSetting, Setting, list_settings

COMMANDS = {
    "run": (Order, ModelSettings),
    "lake run": (LakeOrder, ModelSettings),
    "doctor": (EndpointSettings,),
    "export": (ExportOptions,),
    "review": (ReviewOptions,),
    "tokens build": (BuildOptions, WorkOptions, WatchOptions),
    "ctr build": (RawFiles, Overrides),
    "ctr draft": (ChosenColumns,),
    "criteo preprocess": (CriteoSettings,),
    "monolith convert": (MonolithSettings, Filters),
    "monolith cat": (StreamHints,),
    "monolith stats": (StreamHints,),
}


def parameters(words: str) -> dict[str, Any]:
    command: Any = typer.main.get_command(app)
    for word in words.split():
        command = command.get_command(None, word)
    return {parameter.name: parameter for parameter in command.params}


def written_values(declared: DeclaredSetting) -> tuple[str, ...]:
    """The values that a setting lists, in its type or its description."""
    kinds = (declared.type, *get_args(declared.type))
    literals = [kind for kind in kinds if getattr(kind, "__origin__", None) is Literal]
    return declared.setting.choices or tuple(v for kind in literals for v in get_args(kind))


@pytest.mark.parametrize(
    ("words", "settings_class"),
    [(words, one) for words, classes in COMMANDS.items() for one in classes],
)
def test_every_setting_of_a_class_is_an_option_of_its_command(
    words: str, settings_class: type
) -> None:
    options = parameters(words)
    for declared in list_settings(settings_class):
        option, setting = options[declared.name], declared.setting
        flag = f"--{setting.flag or declared.name.replace('_', '-')}"
        assert option.opts[0] == (declared.name if setting.positional else flag)
        assert option.required == (declared.default is MISSING)
        assert option.help.startswith(setting.help.split("`")[0])
        if setting.parse is None and declared.default not in (MISSING, ()):
            assert option.default == declared.default
        values = written_values(declared)
        assert all(f"{value}" in str(option.type_descriptor.annotation) for value in values)
        assert (setting.parse is not None) or (option.min, option.max) == (
            setting.minimum,
            setting.maximum,
        )


def test_trainers_that_can_be_named_are_those_of_the_registry() -> None:
    assert set(TRAINER_NAMES) == set(TRAINERS)


@dataclass(frozen=True, kw_only=True)
class Example:
    size: Annotated[int, Setting("Size in rows; see `kinds`.", minimum=1)] = 5
    kinds: Annotated[tuple[str, ...], Setting("Kinds.", flag="kind-list")] = ("a",)
    ends: Annotated[tuple[int, ...], Setting("Ends.", repeatable=True, parse=int)] = ()
    mode: Annotated[Literal["x", "y"], Setting("Mode.", environment="EXAMPLE_MODE")] = "x"
    strict: Annotated[bool, Setting("Strict.", negative="lax")] = True
    inner: int = 7

    def __post_init__(self) -> None:
        if self.size == 13:
            raise ConversionError("", "`size` 13 does not go with `kinds`")


seen: dict[str, Any] = {}
example = typer.Typer(cls=Commands)


@command_options
def show(
    *,
    place: Annotated[Path, Setting("Place.", metavar="PLACE", positional=True)],
    settings: Example,
    quick: Annotated[bool, Setting("Quick.")] = False,
) -> None:
    """Show."""
    seen.update(place=place, settings=settings, quick=quick)
    if quick:
        raise ConversionError("file", "`kinds` and `nothing`", "set `quick`")


@command_options
def part(settings: Annotated[Example, Only("mode", inner=8)]) -> None:
    """Part."""
    seen.update(settings=settings)


example.command("show", cls=Command)(show)
example.command("part", cls=Command)(part)


def run(*words: str) -> Any:
    return CliRunner().invoke(example, [*words])


def test_a_command_gets_an_instance_of_the_settings_class() -> None:
    assert run("show", "here").exit_code == 0
    assert seen == {"place": Path("here"), "settings": Example(), "quick": False}
    words = ["--size", "2", "--kind-list", "b, c", "--ends", "1", "--ends", "2", "--lax"]
    assert run("show", "here", *words, "--mode", "y").exit_code == 0
    given = Example(size=2, kinds=("b", "c"), ends=(1, 2), strict=False, mode="y")
    assert seen["settings"] == given


def test_a_command_can_have_a_part_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_MODE", "y")
    assert run("part").exit_code == 0
    assert seen["settings"] == Example(mode="y", inner=8)
    assert run("part", "--size", "1").exit_code == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--size", "0"], "--size"),
        (["--mode", "z"], "--mode"),
        (["--kind-list", "a,,b"], "error: --kind-list: there is an empty name"),
        (["--ends", "x"], "error: --ends: invalid literal"),
        (["--size", "13"], "error: --size 13 does not go with --kind-list"),
    ],
)
def test_what_a_setting_refuses_is_a_usage_error(words: list[str], problem: str) -> None:
    done = run("show", "here", *words)
    assert done.exit_code == 2
    assert problem in done.output
    assert "(usage: " in done.output


def test_names_of_settings_become_flags_in_errors_and_help() -> None:
    done = run("show", "here", "--quick")
    assert done.exit_code == 1
    assert done.output == "error: file: --kind-list and `nothing` (set --quick)\n"
    assert "Size in rows; see --kind-list." in run("show", "--help").output


def test_the_part_of_a_place_that_was_typed_is_shown_and_the_rest_redacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["ingot", "a@example.com", "one"])
    error = ConversionError("a@example.com/b@example.com", "a@example.com is broken", "see it")
    assert shown_error(error) == ("error: a@example.com/[email]: [email] is broken (see it)\n")
    assert shown_error(ConversionError("", "one b@example.com")) == "error: one [email]\n"
    error = ConversionError("s3://b@c.com/b@example.com", "gone")
    assert shown_error(error) == "error: s3://***@c.com/b@example.com: gone\n"


def test_several_ways_stand_below_an_error_of_any_class() -> None:
    ways = "one of b@example.com:\na line"
    below = "error: place: why\n  one of [email]:\n  a line\n"
    assert shown_error(ConversionError("place", "why", ways)) == below
    assert shown_error(CountsReviewNeeded("place", "why", ways, {"rows": 1})) == below


def shown_error(error: IngotError) -> str:
    failing = typer.Typer(pretty_exceptions_enable=False)

    @failing.command(cls=Command)
    def fail() -> None:
        raise error

    return CliRunner().invoke(failing, []).stderr


def test_a_command_asks_for_what_is_neither_typed_nor_configured() -> None:
    app = typer.Typer()
    app.command(cls=Command)(show)
    command: Any = typer.main.get_command(app)
    command.ask = lambda: {"place": lambda: "asked"}
    command.main(args=[], standalone_mode=False)
    assert seen["place"] == Path("asked")
    command.main(args=["typed"], standalone_mode=False)
    assert seen["place"] == Path("typed")


def test_only_a_run_asks_for_what_is_missing() -> None:
    asked = {path: set(command.ask()) for path, _, command in COMMAND_TABLE}
    assert {path: names for path, names in asked.items() if names} == {"run": {"source", "out"}}


def leaves(group: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every command with its place in the table."""
    for name, later in group.later.items():
        command = group.get_command(None, name)
        if isinstance(later, Later):
            yield f"{path}{name}", later, command
        else:
            yield from leaves(command, f"{path}{name} ")


COMMAND_TABLE = list(leaves(typer.main.get_command(app)))


@pytest.mark.parametrize(("later", "command"), [c[1:] for c in COMMAND_TABLE], ids=lambda c: "")
def test_the_list_of_commands_says_what_a_command_says(later: Later, command: Any) -> None:
    """The line in the table is the first sentence of the help; recsys has shorter ones."""
    first = " ".join(command.help.partition("\n\n")[0].split())
    assert later.place.startswith("recsys.") or first.startswith(later.help)


def test_the_list_of_commands_imports_none() -> None:
    """`ingot --help` stays quick: a command's module is imported when it is named."""
    code = (
        "import sys; from ingot.cli.app import app; app(['--help'], standalone_mode=False);"
        "print([m for m in sys.modules if m.startswith('ingot.cli.') and m.count('.') > 2])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
