"""The layout that packaging relies on: a forgotten package works here and is missing in a wheel."""

import ast
import tomllib
from pathlib import Path

import pytest

PARTS = ("agent", "converters", "prompts", "schemas")
ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    path for folder in ("ingot/cli", *PARTS) for path in (ROOT / folder).rglob("*.py")
) + sorted((ROOT / "ingot").glob("*.py"))


@pytest.fixture(scope="module")
def setuptools_table() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["setuptools"]


def packages_on_disk() -> set[str]:
    """Every folder with Python files, by its import name."""
    return {
        ".".join(("ingot", *path.parent.relative_to(ROOT).parts)).replace("ingot.ingot", "ingot")
        for path in MODULES
    }


def test_listed_packages_are_the_packages_on_disk(setuptools_table):
    assert sorted(setuptools_table["packages"]) == sorted(packages_on_disk())


def test_every_package_has_an_init_file():
    assert [p for p in {m.parent for m in MODULES} if not (p / "__init__.py").is_file()] == []


@pytest.mark.parametrize("part", PARTS)
def test_links_in_ingot_lead_to_the_folders(part, setuptools_table):
    link = ROOT / "ingot" / part
    assert link.is_symlink()
    assert str(link.readlink()) == f"../{part}"
    assert setuptools_table["package-dir"][f"ingot.{part}"] == part


def test_every_data_file_is_matched_by_package_data(setuptools_table):
    """Whatever is not Python in a package folder is either shipped or does not belong there."""
    shipped = {
        path
        for package, globs in setuptools_table["package-data"].items()
        for glob in globs
        for path in (ROOT / setuptools_table["package-dir"][package]).glob(glob)
    }
    data = {
        path
        for part in PARTS
        for path in (ROOT / part).rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert sorted(data - shipped) == []


def test_every_module_opens_with_a_docstring():
    trees = {module: ast.parse(module.read_text(encoding="utf-8")) for module in MODULES}
    assert [module for module, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_names_of_modules_say_what_they_hold():
    nothing = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [module for module in MODULES if module.stem in nothing] == []


def test_version_is_stated_once_for_users_and_packaging():
    import ingot

    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == ingot.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{ingot.__version__}]" in changelog or "## [Unreleased]" in changelog


def test_only_the_test_environment_pins_a_version_of_torch():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = dict(project["optional-dependencies"])
    dev = extras.pop("dev")
    assert [one for one in dev if one.startswith("torch==")] == ["torch==2.13.0"]
    lines = [*project["dependencies"], *(one for lines in extras.values() for one in lines)]
    assert [one for one in lines if "==" in one] == []
