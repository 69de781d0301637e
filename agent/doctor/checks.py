"""Check what is installed: ingot, Python, the libraries it needs, its extras.

`Check` is what one check found; `raise_if_failed` gives all of them their exit code.
"""

import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Literal

from ingot import __version__
from ingot.converters.errors import ModelError, OutputError

State = Literal["ok", "warn", "fail", "skipped"]
ENDPOINT = "endpoint"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What one check found.

    Attributes:
        group: `installation`, `places` or `endpoint`.
        state: `fail` = ingot cannot work with it, `skipped` = not there or not looked at.
        hint: what to do; empty = nothing.
    """

    group: str
    name: str
    state: State
    figure: str
    hint: str = ""
    notes: tuple[str, ...] = ()


def raise_if_failed(found: Sequence[Check]) -> None:
    """Nothing where no check failed."""
    failed = [one for one in found if one.state == "fail"]
    if any(one.group != ENDPOINT for one in failed):
        raise OutputError("doctor", _failure_text(failed))
    if failed:
        raise ModelError("doctor", _failure_text(failed))


def _failure_text(failed: Sequence[Check]) -> str:
    count = f"{len(failed)} check{'s' * (len(failed) != 1)} failed"
    return f"{count}: {', '.join(one.name for one in failed)}"


# The libraries whose versions people are asked for.
SHOWN_LIBRARIES = ("openai", "langgraph", "pyarrow", "tokenizers", "zstandard")
EXTRAS = ("fast", "hf", "recsys", "studio", "torch")
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:[=>]=\s*([\d.]+))?")
_EXTRA = re.compile(r"extra\s*==\s*[\"']([\w-]+)[\"']")
_installation_check = partial(Check, group="installation")


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """A package that is needed: its name, the least version (`1.2`, empty = any), the extra."""

    name: str
    least: str = ""
    extra: str = ""


def installation_checks(required: Sequence[str] | None = None) -> Iterator[Check]:
    """What is installed."""
    yield _installation_check(name="ingot", state="ok", figure=__version__)
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield _installation_check(name="Python", state="ok", figure=system)
    needed = [
        _parse_requirement(one) for one in (_ingot_requirements() if required is None else required)
    ]
    yield _check_libraries([one for one in needed if not one.extra])
    for extra in EXTRAS:
        yield _check_extra(extra, [one for one in needed if one.extra == extra])


def _ingot_requirements() -> Sequence[str]:
    try:
        return metadata.requires("ingot") or ()
    except metadata.PackageNotFoundError:
        return ()


def _parse_requirement(text: str) -> Requirement:
    found, extra = _REQUIREMENT.match(text), _EXTRA.search(text)
    name, least = found.groups() if found else (text, None)
    return Requirement(name=name, least=least or "", extra=extra.group(1) if extra else "")


def _check_libraries(needed: Sequence[Requirement]) -> Check:
    if not needed:
        figure = "not compared: ingot runs without being installed"
        return _installation_check(name="libraries", state="skipped", figure=figure)
    wanting = [problem for one in needed if (problem := _version_problem(one))]
    if wanting:
        hint = "pip install again: pip install --upgrade ingot"
        return _installation_check(
            name="libraries", state="fail", figure=", ".join(wanting), hint=hint
        )
    told = [
        f"{one.name} {_installed_version(one.name)}"
        for one in needed
        if one.name in SHOWN_LIBRARIES
    ]
    more = len(needed) - len(told)
    figure = ", ".join(told) + (f" and {more} more" if more else "")
    return _installation_check(name="libraries", state="ok", figure=figure)


def _check_extra(extra: str, needed: Sequence[Requirement]) -> Check:
    name = f"extra {extra}"
    installed = [
        f"{one.name} {_installed_version(one.name)}"
        for one in needed
        if _installed_version(one.name)
    ]
    if needed and len(installed) == len(needed):
        return _installation_check(name=name, state="ok", figure=", ".join(installed))
    hint = f'pip install "ingot[{extra}]"'
    return _installation_check(name=name, state="skipped", figure="not installed", hint=hint)


def _version_problem(one: Requirement) -> str:
    """What is wrong with an installed package; empty = nothing."""
    version = _installed_version(one.name)
    if version is None:
        return f"{one.name} is missing"
    if one.least and _version_numbers(version) < _version_numbers(one.least):
        return f"{one.name} is {version}, {one.least} is needed"
    return ""


def _installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _version_numbers(version: str) -> tuple[int, ...]:
    """The numbers before whatever is no release: `3.51.0rc1` = (3, 51, 0); `1.2` = `1.2.0`."""
    numbers = [int(one) for one in re.findall(r"\d+", version.split("+")[0])[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))
