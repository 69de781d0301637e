"""Checks of what is installed, against packages that the tests themselves need."""

import platform
from importlib import metadata

from ingot import __version__
from ingot.agent.doctor import checks
from ingot.agent.doctor.checks import Check

EXTRA = '; extra == "hf"'


def look(*required: str) -> dict[str, Check]:
    return {one.name: one for one in checks.installation_checks(required)}


def test_this_installation() -> None:
    found = {one.name: one for one in checks.installation_checks()}
    assert list(found) == [
        *("ingot", "Python", "libraries"),
        *(f"extra {name}" for name in ("fast", "hf", "recsys", "studio", "torch")),
    ]
    assert found["ingot"].figure == __version__
    assert platform.python_version() in found["Python"].figure
    assert found["libraries"].state == "ok"
    assert f"pyarrow {metadata.version('pyarrow')}" in found["libraries"].figure


def test_a_library_that_is_missing_or_too_old() -> None:
    check = look("pytest>=8", "no-such-library-for-sure>=1.0", "rich>=999.1")["libraries"]
    assert check.state == "fail"
    assert check.figure == (
        f"no-such-library-for-sure is missing, rich is {metadata.version('rich')}, 999.1 is needed"
    )
    assert "pip install" in check.hint


def test_versions_are_numbers_and_not_texts() -> None:
    assert look("pytest>=8", "rich>=9.9")["libraries"].state == "ok"


def test_an_extra_that_is_not_there() -> None:
    check = look("rich>=13", f"no-such-library-for-sure>=1{EXTRA}")["extra hf"]
    assert (check.state, check.figure) == ("skipped", "not installed")
    assert check.hint == 'pip install "ingot[hf]"'


def test_an_extra_that_is_there() -> None:
    check = look("rich>=13", f"pytest>=8{EXTRA}")["extra hf"]
    assert (check.state, check.figure) == ("ok", f"pytest {metadata.version('pytest')}")


def test_an_ingot_that_is_not_installed() -> None:
    assert look()["libraries"].state == "skipped"
