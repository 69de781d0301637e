"""The built wheel, installed into a clean environment outside the tree: complete, and it runs.

Run by `make test-more`; it builds and installs for about a minute, hence `more`.
"""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.conftest import SURE

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("agent", "converters", "prompts", "schemas")
pytestmark = pytest.mark.more

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
import ingot
from ingot.converters import json_yaml as contracts
for module in pkgutil.walk_packages(ingot.__path__, "ingot."):
    generated = module.name.endswith("_pb2")  # needs the extra recsys: converters/monolith/messages
    if module.name != "ingot.__main__" and not generated:
        importlib.import_module(module.name)
for name in contracts.schema_names():
    contracts.validator(name)
print(ingot.__file__, *contracts.schema_names(), "torch" in sys.modules, "datasets" in sys.modules)
"""


def sh(*command: str | Path, cwd: Path) -> str:
    """Run to the end in an environment that knows nothing of the tree; give what was printed."""
    env = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    run = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
    return run.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that was built from it."""
    out = tmp_path_factory.mktemp("dist")
    sh(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    return out


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (found,) = distributions.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh environment that holds the wheel and its core dependencies only."""
    home = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(home, with_pip=True)
    sh(home / "bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=home)
    return home / "bin"


def test_wheel_holds_exactly_the_files_of_the_packages(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
    sources = [*(ROOT / "ingot").glob("*.py"), ROOT / "ingot/py.typed"]
    expected = {str(path.relative_to(ROOT)) for path in sources}
    expected |= {str(p.relative_to(ROOT)) for p in (ROOT / "ingot/cli").rglob("*") if shipped(p)}
    for part in PARTS:
        files = filter(shipped, (ROOT / part).rglob("*"))
        expected |= {f"ingot/{path.relative_to(ROOT)}" for path in files}
    assert sorted(names) == sorted(expected)


def shipped(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def test_licence_travels(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("licenses/LICENSE"))
        assert archive.read(name) == (ROOT / "LICENSE").read_bytes()


def test_every_module_and_schema_loads_with_core_dependencies(installed, tmp_path):
    printed = sh(installed / "python", "-c", IMPORT_EVERYTHING, cwd=tmp_path).split()
    assert Path(printed[0]).is_relative_to(installed.parent)
    assert {"mapping", "record.pt", "record.sft", "manifest", "llm"} <= set(printed[1:-2])
    assert printed[-2:] == ["False", "False"], "torch and datasets are extras"


def test_core_install_is_without_torch(installed, tmp_path):
    listed = sh(installed / "python", "-m", "pip", "list", "--format=freeze", cwd=tmp_path)
    assert "torch==" not in listed
    assert "langgraph==" in listed


def test_main_job_runs_from_the_wheel(installed, tmp_path):
    source = tmp_path / "set.jsonl"
    rows = "".join(
        f'{{"question": "How much is {n} plus {n}?", "answer": "It is {2 * n}."}}\n'
        for n in range(50)
    )
    source.write_text(rows, encoding="utf-8")
    shutil.copy(ROOT / "examples/tokenizer/tokenizer.json", tmp_path)
    command = [installed / "ingot", "run", "set.jsonl", "--out", "out", "--mapper", "rules"]
    sh(*command, *SURE, "--tokenizer", "tokenizer.json", cwd=tmp_path)
    assert (tmp_path / "out/manifest.json").is_file()
    assert list((tmp_path / "out/tokens").glob("*.idx"))
    assert list((tmp_path / "out/records").glob("part-*.parquet"))


def test_module_and_command_say_the_same_version(installed, tmp_path):
    module = sh(installed / "python", "-m", "ingot", "--version", cwd=tmp_path)
    assert module == sh(installed / "ingot", "--version", cwd=tmp_path)


def test_parquet2mbt_runs_from_the_wheel(installed, tmp_path):
    shutil.copytree(ROOT / "examples/parquet2mbt/corpus", tmp_path / "corpus")
    shutil.copy(ROOT / "examples/tokenizer/tokenizer.json", tmp_path)
    command = [installed / "parquet2mbt", "--input-dir", "corpus", "--tokenizer", "tokenizer.json"]
    sh(*command, "--output-prefix", "out/corpus", "--processes", "2", cwd=tmp_path)
    prefix = ["out/corpus", "--source", "corpus", "--tokenizer", "tokenizer.json", "--all"]
    assert "different        0" in sh(
        installed / "ingot", "tokens", "verify", *prefix, cwd=tmp_path
    )
