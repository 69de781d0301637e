"""Values of options from variables and from a file that is named; docs/configuration.md says how.

A file that happens to lie in the current folder is never read: whoever wrote what lies there must
not choose how it is treated. A review reads no file, which might belong to what is reviewed.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer

_FILE: Final = "ingot.toml"
_OF_INGOT: Final = ("config", "profile")  # options of `ingot` itself
_REVIEW: Final = "review"  # the command that reads no file
_ALIASES: Final = {"parquet2mbt": "tokens build"}
_MOST_NAMED: Final = 3
# What Kubernetes sets in every pod for a service that is called ingot, or ingot-metrics.
_LINK: Final = re.compile(r"(?:tcp|udp|sctp)://\S+:[0-9]+")


class Value(NamedTuple):
    """A value as it would stand on the command line, and where it comes from."""

    text: str | list[str]
    origin: str


class _Table(NamedTuple):
    heading: str  # `ingot.toml [convert]`
    entries: Mapping[str, Any]
    shared: bool  # it holds for every command that has an option


def command_flags(command: Any) -> dict[str, Any]:  # noqa: ANN401 - click's, or typer's own
    """Return the options of a command by their long flags, without the dashes."""
    options = (one for one in command.params if one.param_type_name == "option")
    return {flag[2:]: one for one in options for flag in one.opts if flag.startswith("--")}


def configured_values(
    command: Any,  # noqa: ANN401
    path: str,
    root: Any,  # noqa: ANN401
    config: Path | None = None,
    profile: str | None = None,
) -> dict[str, Value]:
    """Return the configured values of a command by the names of its parameters.

    Args:
        command: the command, whose options are looked for.
        path: the words that call it, such as `tokens build`.
        root: the group of all commands, which a file may set; None = there is none.
        config: the file; None = INGOT_CONFIG, or none.
        profile: the profile of the file; None = INGOT_PROFILE, or none.

    Raises:
        typer.BadParameter: the file cannot be read, or holds what it must not hold.
    """
    path, values = _ALIASES.get(path, path), {}
    config_file = _named_file(config)
    profile = profile or os.environ.get("INGOT_PROFILE")
    tables: list[_Table] = []
    if path == _REVIEW:
        pass
    elif config_file:
        commands = every_command(root) if root else {path: command}
        tables = _read_tables(config_file, path, profile, commands)
    elif profile:
        hint = "name the file that holds it with --config or INGOT_CONFIG"
        raise typer.BadParameter(f"profile {profile!r}: {hint}")
    for flag, option in command_flags(command).items():
        value = _read_variable(path, flag, option) or _find_entry(tables, flag, option)
        if value is not None:
            values[option.name] = value
    return values


def _named_file(config: Path | None) -> Path | None:
    path = config or os.environ.get("INGOT_CONFIG")
    return Path(path) if path else None


def unread_settings(path: str, config: Path | None) -> Iterator[str]:
    """Say what sets nothing for a command, where somebody may think that it does."""
    config_file = _named_file(config)
    if config_file and path == _REVIEW:
        yield f"{config_file} is not read: settings of a review are typed, or variables"
    elif config_file is None and Path(_FILE).is_file():
        yield f"{_FILE} of this folder is not read: name it with --config or INGOT_CONFIG"
    for name, text in sorted(os.environ.items()):
        if _is_service_link(name, text):
            yield f"{name} is a service link of Kubernetes, which sets no option"


def _is_service_link(name: str, text: str) -> bool:
    """Whether a variable tells where a service of the cluster is: `INGOT_PORT=tcp://10.0.0.1:80`."""
    return name.startswith("INGOT_") and name.endswith("_PORT") and bool(_LINK.fullmatch(text))


def variable_names(path: str, flag: str, option: Any) -> list[str]:  # noqa: ANN401
    """Return the variables that set an option, the first of which wins."""
    words = [f"{path} {flag}"] if flag in _OF_INGOT else [f"{path} {flag}", flag]
    derived = [f"ingot {one}".replace("-", "_").replace(" ", "_").upper() for one in words]
    declared = [option.envvar] if isinstance(option.envvar, str) else option.envvar or []
    return list(dict.fromkeys([*derived, *declared]))


def _read_variable(path: str, flag: str, option: Any) -> Value | None:  # noqa: ANN401
    for name in variable_names(path, flag, option):
        if (text := os.environ.get(name)) and not _is_service_link(name, text):
            return Value(shlex.split(text) if option.multiple else text, name)
    return None


def _find_entry(tables: Iterable[_Table], flag: str, option: Any) -> Value | None:  # noqa: ANN401
    for table in tables:
        if flag in table.entries and not (table.shared and flag in _OF_INGOT):
            entry = table.entries[flag]
            texts = [_spell(one, flag, table) for one in entry] if isinstance(entry, list) else None
            if option.multiple:
                return Value(texts or [_spell(entry, flag, table)], table.heading)
            text = _spell(entry, flag, table) if texts is None else ",".join(texts)
            return Value(text, table.heading)
    return None


def _spell(entry: object, flag: str, table: _Table) -> str:
    """Return a value of TOML as it would stand on the command line."""
    if not isinstance(entry, str | int | float):
        problem = "is neither a text nor a number nor a list"
        raise typer.BadParameter(f"{table.heading}: {flag} {problem}")
    return str(entry).lower() if isinstance(entry, bool) else str(entry)


def _read_tables(
    file: Path, path: str, profile: str | None, commands: Mapping[str, Any]
) -> list[_Table]:
    """Return the tables that hold for a command, the strongest first; the whole file is checked."""
    import tomllib

    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{file}: cannot read it: {error.strerror}") from error
    except ValueError as error:
        raise typer.BadParameter(f"{file}: is not TOML: {error}") from error
    _refuse_secrets(document, str(file))
    profiles = document.pop("profile", {})
    inside = profiles.values() if isinstance(profiles, dict) else [profiles]
    if not all(isinstance(one, dict) for one in inside):
        raise typer.BadParameter(f"{file}: profile is not a table of tables, [profile.NAME]")
    by_heading = {f"profile.{name}": entries for name, entries in profiles.items()}
    if profile and f"profile.{profile}" not in by_heading:
        raise typer.BadParameter(f"{file}: no [profile.{profile}]{_nearest(profile, profiles)}")
    for name, entries in {"": document, **by_heading}.items():
        _check_entries(entries, f"{file} [{name}]" if name else str(file), commands)
    tables = []
    for name in ([f"profile.{profile}"] if profile else []) + [""]:
        entries = by_heading.get(name, document)
        command_entries = reduce(lambda inner, word: inner.get(word, {}), path.split(), entries)
        words = ".".join(filter(None, (name, *path.split())))
        tables.append(_Table(f"{file} [{words}]", command_entries, shared=False))
        tables.append(_Table(f"{file} [{name}]" if name else str(file), entries, shared=True))
    return tables


def _refuse_secrets(entries: Mapping[str, Any], heading: str) -> None:
    """Refuse a key of a service, by its name or its look; the message does not show it."""
    from ingot.agent.privacy.addresses import find_url_credentials
    from ingot.agent.privacy.secrets import find_tokens, is_secret_name

    for name, entry in entries.items():
        if isinstance(entry, dict):
            _refuse_secrets(entry, f"{heading} [{name}]")
            continue
        texts = map(str, entry if isinstance(entry, list) else [entry])
        looks_secret = any([*find_tokens(one), *find_url_credentials(one)] for one in texts)
        if looks_secret or is_secret_name(name):
            problem = "looks like a key or password: keys are read only from the environment"
            raise typer.BadParameter(f"{heading}: what {name} holds {problem}")


def _check_entries(
    entries: Mapping[str, Any], heading: str, commands: Mapping[str, Any], path: str = ""
) -> None:
    """Refuse tables that no command has, and keys that no option has, here and below."""
    command = commands.get(path)
    flags = set[str]().union(*map(command_flags, [command] if command else commands.values()))
    for key, entry in entries.items():
        inner, problem = f"{path} {key}".strip(), ""
        if isinstance(entry, dict) and command is None:
            if any(f"{one} ".startswith(f"{inner} ") for one in commands):
                _check_entries(entry, heading, commands, inner)
            else:
                problem = f"no command {inner}{_nearest(inner, commands)}"
        elif command is None and path:
            problem = f"{path} is not a command: put {key} into the table of one of its commands"
        elif key not in flags:
            problem = f"unknown option {key!r}{_nearest(key, flags)}"
        if problem:
            table_name = f" [{path.replace(' ', '.')}]" if path else ""
            raise typer.BadParameter(f"{heading}{table_name}: {problem}")


def _nearest(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, sorted(known), n=1, cutoff=0.5)
    return f"; nearest: {close[0]}" if close else ""


def every_command(group: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the commands of a group and of those in it by their words; imports all of them."""
    commands: dict[str, Any] = {}
    for name in group.commands:
        command = group.get_command(None, name)
        inner = every_command(command) if hasattr(command, "commands") else {"": command}
        commands |= {f"{name} {words}".strip(): one for words, one in inner.items()}
    return commands


def list_configured(
    root: Any,  # noqa: ANN401
    config: Path | None,
    profile: str | None,
) -> Iterator[tuple[str, str, str]]:
    """Yield flag, value and origin (with its commands) of every value that holds somewhere."""
    paths_by_value: dict[tuple[str, str, str], list[str]] = {}
    for path, command in every_command(root).items():
        flags = {one.name: flag for flag, one in command_flags(command).items()}
        for name, (text, origin) in configured_values(command, path, root, config, profile).items():
            value = text if isinstance(text, str) else ", ".join(text)
            paths_by_value.setdefault((flags[name], value, origin), []).append(path)
    for (flag, value, origin), paths in paths_by_value.items():
        suffix = ", ..." if len(paths) > _MOST_NAMED else ""
        yield flag, value, f"from {origin}, for {', '.join(paths[:_MOST_NAMED])}{suffix}"
