"""Checks of what is installed: ingot, Python, the libraries it needs, its extras."""

import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata

from ingot import __version__
from ingot.agent.doctor.checks import Check

# The libraries whose versions people are asked for.
TOLD = ("openai", "langgraph", "pyarrow", "tokenizers", "zstandard")
EXTRAS = ("hf", "recsys", "torch")
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:[=>]=\s*([\d.]+))?")
_EXTRA = re.compile(r"extra\s*==\s*[\"']([\w-]+)[\"']")
_check = partial(Check, group="installation")


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """A package that is needed: its name, the least version (`1.2`, empty = any), the extra."""

    name: str
    least: str = ""
    extra: str = ""


def checks(required: Sequence[str] | None = None) -> Iterator[Check]:
    """What is installed.

    Args:
        required: what is needed, as packages say it (`openai>=3.51`); None = as ingot's package
            says it.
    """
    yield _check(name="ingot", state="ok", figure=__version__)
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield _check(name="Python", state="ok", figure=system)
    needed = [_requirement(one) for one in (_of_ingot() if required is None else required)]
    yield _libraries([one for one in needed if not one.extra])
    for extra in EXTRAS:
        yield _extra(extra, [one for one in needed if one.extra == extra])


def _of_ingot() -> Sequence[str]:
    try:
        return metadata.requires("ingot") or ()
    except metadata.PackageNotFoundError:
        return ()


def _requirement(text: str) -> Requirement:
    found, extra = _REQUIREMENT.match(text), _EXTRA.search(text)
    name, least = found.groups() if found else (text, None)
    return Requirement(name=name, least=least or "", extra=extra.group(1) if extra else "")


def _libraries(needed: Sequence[Requirement]) -> Check:
    if not needed:
        figure = "not compared: ingot runs without being installed"
        return _check(name="libraries", state="skipped", figure=figure)
    wanting = [problem for one in needed if (problem := _problem(one))]
    if wanting:
        hint = "pip install again: pip install --upgrade ingot"
        return _check(name="libraries", state="fail", figure=", ".join(wanting), hint=hint)
    told = [f"{one.name} {_version(one.name)}" for one in needed if one.name in TOLD]
    more = len(needed) - len(told)
    figure = ", ".join(told) + (f" and {more} more" if more else "")
    return _check(name="libraries", state="ok", figure=figure)


def _extra(extra: str, needed: Sequence[Requirement]) -> Check:
    name = f"extra {extra}"
    installed = [f"{one.name} {_version(one.name)}" for one in needed if _version(one.name)]
    if needed and len(installed) == len(needed):
        return _check(name=name, state="ok", figure=", ".join(installed))
    hint = f'pip install "ingot[{extra}]"'
    return _check(name=name, state="skipped", figure="not installed", hint=hint)


def _problem(one: Requirement) -> str:
    """What is wrong with an installed package; empty = nothing."""
    version = _version(one.name)
    if version is None:
        return f"{one.name} is missing"
    if one.least and _numbers(version) < _numbers(one.least):
        return f"{one.name} is {version}, {one.least} is needed"
    return ""


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers before whatever is no release: `3.51.0rc1` = (3, 51, 0); `1.2` = `1.2.0`."""
    numbers = [int(one) for one in re.findall(r"\d+", version.split("+")[0])[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))
