"""Check what is installed: ingot, Python, the libraries it needs, its extras.

`Check` is what one check found; `raise_if_failed` gives all of them their exit code.
"""

import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Literal, NamedTuple

from ingot import __version__
from ingot.converters.errors import ModelError, OutputError

State = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found.

    Attributes:
        group: `installation`, `configuration`, `places` or `endpoint`.
        state: `fail` = ingot cannot work with it, `skipped` = not there or not looked at.
        hint: what to do; empty = nothing.
    """

    group: str
    name: str
    state: State
    figure: str
    hint: str = ""
    notes: tuple[str, ...] = ()


_installed = partial(Check, "installation")


def raise_if_failed(found: Sequence[Check]) -> None:
    """Raise the error of the checks that failed; one of this machine comes before the endpoint."""
    failed = [one for one in found if one.state == "fail"]
    if failed:
        count = f"{len(failed)} check{'s' * (len(failed) != 1)} failed"
        text = f"{count}: {', '.join(one.name for one in failed)}"
        on_machine = any(one.group != "endpoint" for one in failed)
        raise OutputError("doctor", text) if on_machine else ModelError("doctor", text)


# The libraries whose versions people are asked for.
SHOWN_LIBRARIES = ("openai", "langgraph", "pyarrow", "tokenizers", "zstandard")
EXTRAS = ("fast", "hf", "recsys", "studio", "torch")
_REQUIREMENT = re.compile(
    r"([\w.-]+)\s*(?:[=>]=\s*([\d.]+))?(?:.*extra\s*==\s*[\"']([\w-]+)[\"'])?"
)


class _Requirement(NamedTuple):
    """A package that is needed, its least version, the extra that needs it; None = any, none."""

    name: str
    least: str | None
    extra: str | None

    @property
    def version(self) -> str | None:
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return None

    @property
    def problem(self) -> str:
        version = self.version
        if version is None:
            return f"{self.name} is missing"
        if self.least and _version_numbers(version) < _version_numbers(self.least):
            return f"{self.name} is {version}, {self.least} is needed"
        return ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def installation_checks(required: Sequence[str] | None = None) -> Iterator[Check]:
    """Check what is installed; `required` is what ingot's own metadata says."""
    yield _installed("ingot", "ok", __version__)
    system = f"{platform.system()} {platform.machine()}"
    yield _installed("Python", "ok", f"{platform.python_version()} on {system}")
    if required is None:
        try:
            required = metadata.requires("ingot") or ()
        except metadata.PackageNotFoundError:
            required = ()
    found = [_REQUIREMENT.match(one) for one in required]
    needed = [_Requirement(*one.groups()) for one in found if one]
    yield _check_libraries([one for one in needed if not one.extra])
    for extra in EXTRAS:
        of_extra = [one for one in needed if one.extra == extra]
        if of_extra and all(one.version for one in of_extra):
            yield _installed(f"extra {extra}", "ok", ", ".join(map(str, of_extra)))
        else:
            hint = f'pip install "ingot[{extra}]"'
            yield _installed(f"extra {extra}", "skipped", "not installed", hint)


def _check_libraries(needed: Sequence[_Requirement]) -> Check:
    if not needed:
        figure = "not compared: ingot runs without being installed"
        return _installed("libraries", "skipped", figure)
    problems = [one.problem for one in needed if one.problem]
    if problems:
        hint = "pip install again: pip install --upgrade ingot"
        return _installed("libraries", "fail", ", ".join(problems), hint)
    shown = [str(one) for one in needed if one.name in SHOWN_LIBRARIES]
    more = len(needed) - len(shown)
    return _installed("libraries", "ok", ", ".join(shown) + (f" and {more} more" if more else ""))


def _version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a release: `3.51.0rc1` = (3, 51, 0); `1.2` = `1.2.0`."""
    numbers = [int(one) for one in re.findall(r"\d+", version.split("+")[0])[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))
