"""The layout that packaging relies on: a forgotten package works here and is missing in a wheel."""

import ast
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from setuptools import find_packages

import ingot

PARTS = ("agent", "converters", "prompts", "schemas")
ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}


def python_files(root: Path) -> list[Path]:
    """Return the Python files of a product that lies in a folder."""
    folders = [root / folder for folder in ("ingot/cli", *PARTS)]
    inner = [path for folder in folders for path in folder.rglob("*.py")]
    return sorted([*inner, *(root / "ingot").glob("*.py")])


def packages_on_disk(root: Path) -> set[str]:
    """Return every folder with Python files, by its import name."""
    return {
        ".".join(("ingot", *path.parent.relative_to(root).parts)).replace("ingot.ingot", "ingot")
        for path in python_files(root)
    }


def without_init(root: Path) -> list[Path]:
    """Return the folders with modules that are no packages."""
    folders = {path.parent for path in python_files(root)}
    return sorted(folder for folder in folders if not (folder / "__init__.py").is_file())


def found_packages(root: Path) -> set[str]:
    """Return the packages that setuptools finds, as pyproject.toml tells it to."""
    return set(find_packages(str(root), include=SETUPTOOLS["packages"]["find"]["include"]))


def wrong_links(root: Path) -> list[str]:
    """Return the parts whose link in `ingot` leads elsewhere, or is none."""
    return [
        part
        for part in PARTS
        if not (link := root / "ingot" / part).is_symlink() or str(link.readlink()) != f"../{part}"
    ]


def unshipped(root: Path, package_data: Mapping[str, Iterable[str]]) -> list[Path]:
    """Return the data files of the packages that setuptools is not told of."""
    shipped = {
        path.resolve()
        for package, globs in package_data.items()
        for glob in globs
        for path in (root / package.replace(".", "/")).glob(glob)
    }
    return sorted(
        path
        for part in PARTS
        for path in (root / part).rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
        if path.resolve() not in shipped
    )


def undocumented(files: Iterable[Path]) -> list[Path]:
    """Return the modules that do not open with a docstring."""
    return [file for file in files if not ast.get_docstring(ast.parse(file.read_text("utf-8")))]


def empty_names(files: Iterable[Path]) -> list[Path]:
    """Return the modules with a name that says nothing of what they hold."""
    return [file for file in files if file.stem in EMPTY_NAMES]


def unmirrored(root: Path) -> list[Path]:
    """Return the folders of tests below those of a package that no package is called like."""
    mirrors = {"tests/agent": "agent", "tests/converters": "converters", "tests/cli": "ingot/cli"}
    folders = {
        file.parent: root / mirrors[top] / file.parent.relative_to(root / top)
        for top in mirrors
        for file in (root / top).rglob("test_*.py")
    }
    return sorted(tests for tests, package in folders.items() if not package.is_dir())


def pins(lines: Iterable[str]) -> list[str]:
    """Return the requirements that allow one version only."""
    return [line for line in lines if "==" in line]


def test_setuptools_finds_the_packages_on_disk() -> None:
    assert found_packages(ROOT) == packages_on_disk(ROOT)


def test_every_package_has_an_init_file() -> None:
    assert without_init(ROOT) == []


def test_links_in_ingot_lead_to_the_folders() -> None:
    assert wrong_links(ROOT) == []


def test_every_data_file_is_matched_by_package_data() -> None:
    assert unshipped(ROOT, SETUPTOOLS["package-data"]) == []


@pytest.mark.more
def test_every_module_opens_with_a_docstring() -> None:
    assert undocumented(python_files(ROOT)) == []


def test_names_of_modules_say_what_they_hold() -> None:
    assert empty_names(python_files(ROOT)) == []


def test_folders_of_tests_mirror_the_packages() -> None:
    assert unmirrored(ROOT) == []


def test_version_is_stated_once_for_users_and_packaging() -> None:
    assert PROJECT["project"]["version"] == ingot.__version__


def test_only_the_test_environment_pins_a_version_of_torch() -> None:
    extras = dict(PROJECT["project"]["optional-dependencies"])
    dev = extras.pop("dev")
    assert [line for line in pins(dev) if line.startswith("torch==")] == ["torch==2.13.0"]
    lines = [
        *PROJECT["project"]["dependencies"],
        *(one for some in extras.values() for one in some),
    ]
    assert pins(lines) == []


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Make a small product with every mistake that a rule looks for."""
    for name in ("ingot/cli", *PARTS):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text('"""Doc."""\n')
    (tmp_path / "ingot/__init__.py").write_text('"""Doc."""\n')
    (tmp_path / "agent/forgotten").mkdir()
    (tmp_path / "agent/forgotten/helpers.py").write_text("x = 1\n")
    (tmp_path / "schemas/some.json").write_text("{}")
    (tmp_path / "schemas/stray.txt").write_text("")
    for name in ("agent/forgotten", "agent/former"):
        (tmp_path / "tests" / name).mkdir(parents=True)
        (tmp_path / "tests" / name / "test_it.py").write_text("")
    for part in ("agent", "converters", "prompts"):
        (tmp_path / "ingot" / part).symlink_to(f"../{'agent' if part == 'prompts' else part}")
    return tmp_path


def test_each_mistake_of_a_layout_is_found(planted: Path) -> None:
    folder = planted / "agent/forgotten"
    left_out = {"ingot.agent.forgotten", "ingot.schemas"}
    assert packages_on_disk(planted) - found_packages(planted) == left_out
    assert without_init(planted) == [folder]
    assert wrong_links(planted) == ["prompts", "schemas"]
    (planted / "ingot/schemas").symlink_to("../schemas")
    assert unshipped(planted, {"ingot.schemas": ["*.json"]}) == [planted / "schemas/stray.txt"]
    assert undocumented(python_files(planted)) == [folder / "helpers.py"]
    assert empty_names(python_files(planted)) == [folder / "helpers.py"]
    assert unmirrored(planted) == [planted / "tests/agent/former"]
    assert pins(["torch==2.13.0", "numpy>=1.26"]) == ["torch==2.13.0"]
