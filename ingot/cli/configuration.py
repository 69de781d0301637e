"""Values of options from environment variables and `ingot.toml`; docs/configuration.md says how."""

import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer
import typer.main

_FILE: Final = "ingot.toml"
_PROFILE: Final = "profile"
_OF_INGOT: Final = ("config", _PROFILE)  # options of `ingot` itself
# Who writes a file into a folder of data must not choose who gets the user's key and rows.
_ONLY_NAMED: Final = ("base-url", "preset")
_ALIASES: Final = {"parquet2mbt": "tokens build"}
_MOST_NAMED: Final = 3


class Value(NamedTuple):
    """A value as it would stand on the command line, and where it comes from."""

    text: str | list[str]
    origin: str


class _Table(NamedTuple):
    heading: str  # of the file, `ingot.toml [convert]`
    entries: Mapping[str, Any]
    shared: bool  # it holds for every command that has an option


def command_flags(command: Any) -> dict[str, Any]:  # noqa: ANN401 - click's, or typer's own
    """Return the options of a command by their long flags, without the dashes."""
    options = (one for one in command.params if one.param_type_name == "option")
    return {flag[2:]: one for one in options for flag in one.opts if flag.startswith("--")}


def configured_values(
    command: Any,  # noqa: ANN401
    path: str,
    config: Path | None = None,
    profile: str | None = None,
) -> dict[str, Value]:
    """Return the configured values of a command by the names of its parameters.

    Args:
        command: the command, whose options are looked for.
        path: the words that call it, such as `tokens build`.
        config: the file; None = INGOT_CONFIG, or ingot.toml in the current folder if it exists.
        profile: the profile of the file; None = INGOT_PROFILE, or none.

    Raises:
        typer.BadParameter: the file cannot be read, or holds what it must not hold.
    """
    path = _ALIASES.get(path, path)
    flags = command_flags(command)
    named = config or (Path(os.environ["INGOT_CONFIG"]) if os.getenv("INGOT_CONFIG") else None)
    profile = profile or os.environ.get("INGOT_PROFILE") or None
    tables: list[_Table] = []
    if named or Path(_FILE).is_file():
        tables = _read_tables(named or Path(_FILE), path, profile, trusted=named is not None)
        for table in tables:
            _check_table(table, flags)
    elif profile:
        raise typer.BadParameter(f"profile {profile!r}: there is no {_FILE} in this folder")
    found = {}
    for flag, option in flags.items():
        value = _read_variable(path, flag, option) or _find_entry(tables, flag, option)
        if value is not None:
            found[option.name] = value
    return found


def variable_names(path: str, flag: str, option: Any) -> list[str]:  # noqa: ANN401
    """Return the variables that set an option, the first of which wins."""
    own = f"INGOT_{path}_{flag}"
    short = [] if flag in _OF_INGOT else [f"INGOT_{flag}"]
    further = [option.envvar] if isinstance(option.envvar, str) else option.envvar or []
    names = [name.upper().replace("-", "_").replace(" ", "_") for name in (own, *short)]
    return list(dict.fromkeys([*names, *further]))


def _read_variable(path: str, flag: str, option: Any) -> Value | None:  # noqa: ANN401
    for name in variable_names(path, flag, option):
        if text := os.environ.get(name):
            return Value(_split_words(text) if option.multiple else text, name)
    return None


def _split_words(text: str) -> list[str]:
    import shlex

    return shlex.split(text)


def _find_entry(tables: Iterable[_Table], flag: str, option: Any) -> Value | None:  # noqa: ANN401
    for table in tables:
        if flag in table.entries and not (table.shared and flag in _OF_INGOT):
            entry = table.entries[flag]
            if isinstance(entry, list) and not option.multiple:
                entry = ",".join(_spell(one, flag, table) for one in entry)
            items = entry if isinstance(entry, list) else [entry]
            texts = [_spell(one, flag, table) for one in items]
            return Value(texts if option.multiple else texts[0], table.heading)
    return None


def _spell(entry: object, flag: str, table: _Table) -> str:
    """Return a value of TOML as it would stand on the command line."""
    if isinstance(entry, bool):
        return str(entry).lower()
    if isinstance(entry, str | int | float):
        return str(entry)
    raise typer.BadParameter(f"{table.heading}: {flag} is neither a text nor a number nor a list")


def _read_tables(file: Path, path: str, profile: str | None, *, trusted: bool) -> list[_Table]:
    """Return the tables that hold for a command, the strongest first."""
    document = _read_document(file)
    _refuse_secrets(document, str(file))
    profiles = document.pop(_PROFILE, {})
    chosen = [_Table(str(file), document, shared=True)]
    if profile is not None:
        if not (isinstance(profiles, dict) and isinstance(profiles.get(profile), dict)):
            raise typer.BadParameter(f"{file}: no [profile.{profile}]{_nearest(profile, profiles)}")
        chosen.insert(0, _Table(f"{file} [profile.{profile}]", profiles[profile], shared=True))
    tables = []
    for table in chosen:
        _check_names(table.entries, table.heading)
        entries: Any = table.entries
        for word in path.split():
            entries = entries.get(word, {}) if isinstance(entries, dict) else {}
        inside = table.heading.removeprefix(str(file)).strip(" []")
        heading = f"{file} [{'.'.join([*filter(None, [inside]), *path.split()])}]"
        tables += [_Table(heading, entries, shared=False), table]
    for table in () if trusted else tables:
        for flag in filter(table.entries.__contains__, _ONLY_NAMED):
            problem = f"{flag} is read only from a file that you name"
            raise typer.BadParameter(f"{table.heading}: {problem} with --config or INGOT_CONFIG")
    return tables


def _read_document(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{file}: cannot read it: {error.strerror}") from error
    except ValueError as error:
        raise typer.BadParameter(f"{file}: is not TOML: {error}") from error


def _refuse_secrets(entries: Mapping[str, Any], heading: str) -> None:
    """Refuse a key of a service, by its name or its look; the message does not show it."""
    from ingot.agent.privacy.secrets import find_tokens, find_url_credentials, is_secret_name

    for name, entry in entries.items():
        if isinstance(entry, dict):
            _refuse_secrets(entry, f"{heading} [{name}]")
            continue
        texts = map(str, entry if isinstance(entry, list) else [entry])
        shown = any([*find_tokens(one), *find_url_credentials(one)] for one in texts)
        if shown or is_secret_name(name):
            problem = "looks like a key or password: keys are read only from the environment"
            raise typer.BadParameter(f"{heading}: what {name} holds {problem}")


def _check_table(table: _Table, flags: Mapping[str, Any]) -> None:
    """Refuse keys that no option has. Other commands are imported only if this one lacks a key."""
    for key, entry in table.entries.items():
        if key in flags or (table.shared and isinstance(entry, dict)):
            continue
        known = set(flags)
        if table.shared:
            known.update(*map(command_flags, all_commands().values()))
        if key not in known:
            near = _nearest(key, known)
            raise typer.BadParameter(f"{table.heading}: unknown option {key!r}{near}")


def _check_names(entries: Mapping[str, Any], heading: str, path: str = "") -> None:
    """Refuse tables that no command has, and options in the table of a group of commands."""
    paths = _command_paths()
    for name, entry in entries.items():
        inner = f"{path} {name}".strip()
        if not isinstance(entry, dict) and not path:
            continue  # a shared option
        if isinstance(entry, dict) and any(one.startswith(f"{inner} ") for one in paths):
            _check_names(entry, heading, inner)
        elif not isinstance(entry, dict):
            problem = f"is not the table of one command: put {name} into one below it"
            raise typer.BadParameter(f"{heading}: [{path}] {problem}")
        elif inner not in paths:
            shown = inner.replace(" ", ".")
            near = _nearest(shown, [one.replace(" ", ".") for one in paths])
            raise typer.BadParameter(f"{heading}: no command {shown}{near}")


@cache
def _command_paths() -> dict[str, tuple[Any, str]]:
    """Return the group and name of every command by the words that call it; imports none."""
    from ingot.cli.app import app

    found = {}

    def walk(group: Any, words: str) -> None:  # noqa: ANN401
        for name, later in group.later.items():
            path = f"{words} {name}".strip()
            if isinstance(later, typer.Typer):
                walk(group.get_command(None, name), path)
            else:
                found[path] = group, name

    walk(typer.main.get_command(app), "")
    return found


@cache
def all_commands() -> dict[str, Any]:
    """Return every command by the words that call it; imports all of them."""
    return {path: group.get_command(None, name) for path, (group, name) in _command_paths().items()}


def _nearest(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, sorted(known), n=1, cutoff=0.5)
    return f"; nearest: {near[0]}" if near else ""


def list_configured(config: Path | None, profile: str | None) -> list[tuple[str, Value, str]]:
    """Return flag, value and the commands of every configured value that holds somewhere."""
    found: dict[tuple[str, str, str], tuple[Value, list[str]]] = {}
    for path, command in all_commands().items():
        flags = {one.name: flag for flag, one in command_flags(command).items()}
        for name, value in configured_values(command, path, config, profile).items():
            key = flags[name], str(value.text), value.origin
            found.setdefault(key, (value, []))[1].append(path)
    return [
        (flag, value, ", ".join(paths[:_MOST_NAMED]) + ", ..." * (len(paths) > _MOST_NAMED))
        for (flag, *_), (value, paths) in found.items()
    ]
