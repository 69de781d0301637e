"""Every command line, variable and configuration key in deploy/ is one that ingot knows."""

import inspect
import re
import tomllib
from functools import wraps
from importlib import import_module
from typing import Any

import pytest
import typer
import typer.main

from ingot.cli.app import COMMANDS, app
from ingot.cli.command import Command, Later, command_options
from tests.deploy.manifests import K8S, ROOT, command_lines, of_kind, variables

INDEX = "$(JOB_COMPLETION_INDEX)"
COMMAND_LINES = list(command_lines())


def find_command(words: list[str]) -> tuple[Later, list[str]]:
    """The command that words call, and the words behind its name."""
    table: Any = COMMANDS
    for number, word in enumerate(words, 1):
        found = table.get(word)
        assert found, f"ingot has no command {' '.join(words[:number])}"
        if isinstance(found, Later):
            return found, words[number:]
        table = found.info.cls.later
    raise AssertionError(f"{words}: a command is missing")


def parse(words: list[str]) -> int:
    """The exit code of a command line that is parsed, all values included, and not run."""
    if words == ["--help"]:
        return typer.main.get_command(app).main(words, standalone_mode=False) or 0
    later, rest = find_command(words)
    module, _, name = later.place.partition(":")
    command = inspect.unwrap(getattr(import_module(f"ingot.cli.{module}"), name))

    @wraps(command)
    def run_nothing(**_: object) -> None:
        pass

    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(cls=Command)(command_options(run_nothing))
    return typer.main.get_command(alone).main(rest, standalone_mode=False) or 0


@pytest.mark.parametrize(
    ("where", "words"), COMMAND_LINES, ids=[f"{w}: {' '.join(a[:2])}" for w, a in COMMAND_LINES]
)
def test_command_lines_parse(where, words, capsys):
    indexes = range(8) if any(INDEX in word for word in words) else [0]
    for index in indexes:
        code = parse([word.replace(INDEX, str(index)) for word in words])
        assert code == 0, f"{where}: {capsys.readouterr().err}"


def test_wrong_command_lines_do_not_parse(capsys):
    assert parse(["convert", "m.json", "data", "--out", "x", "--workers", "many"]) == 2
    assert parse(["convert", "m.json", "data", "--out", "x", "--no-such-option"]) == 2
    assert parse(["lake", "run", "data", "--out", "x", "--dedup", "fuzzy"]) == 2
    assert parse(["lake", "run", "data", "--out", "x", "--split", "a=2"]) == 2
    with pytest.raises(AssertionError, match="no command lake walk"):
        parse(["lake", "walk"])


def commands(table: Any = COMMANDS, words: str = "") -> dict[str, Any]:
    """Every command by the words that call it."""
    found: dict[str, Any] = {}
    for name, one in table.items():
        path = f"{words} {name}".strip()
        if isinstance(one, Later):
            found[path] = one.load(name)
        else:
            found |= commands(one.info.cls.later, path)
    return found


def options(command: Any) -> dict[str, Any]:
    """The options of a command by their long name, without the dashes."""
    return {opt[2:]: one for one in command.params for opt in one.opts if opt.startswith("--")}


@pytest.mark.more
def test_variables_are_ones_that_ingot_reads():
    known = {
        f"INGOT_{name.upper().replace('-', '_')}"
        for one in commands().values()
        for name in options(one)
    }
    for folder in ("agent", "converters", "ingot/cli"):
        for file in (ROOT / folder).rglob("*.py"):
            known |= set(re.findall(r"\bINGOT_[A-Z_]+", file.read_text("utf-8")))
    used = {(where, name) for where, name in variables() if name.startswith("INGOT_")}
    assert sorted(one for one in used if one[1] not in known) == []


def test_workers_follow_the_limit_of_the_pod():
    (job,) = (one for one in of_kind("Job") if one["metadata"]["name"] == "ingot-convert")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (workers,) = (one for one in container["env"] if one["name"] == "INGOT_WORKERS")
    assert workers["valueFrom"] == {"resourceFieldRef": {"resource": "limits.cpu"}}
    assert "workers" in options(commands()["convert"])


# What each command of the manifests needs besides options.
LEAST = {"convert": ["m.json", "data", "--out", "x"], "lake run": ["data", "--out", "x"]}


def test_configuration_names_options_and_values_that_exist(capsys):
    document = tomllib.loads((K8S / "ingot.toml").read_text("utf-8"))
    found = {
        name: {key: value for key, value in document.items() if not isinstance(value, dict)}
        for name in LEAST
    }
    found["lake run"] |= document["lake"]["run"]
    assert set(document) == {*found["convert"], "lake"}
    for name, entries in found.items():
        assert entries
        given = [word for key, value in entries.items() for word in (f"--{key}", str(value))]
        assert parse([*name.split(), *LEAST[name], *given]) == 0, capsys.readouterr().err
