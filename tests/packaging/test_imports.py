"""The direction of imports, and what a start of the command costs."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import SURE
from tests.packaging.house import modules, parse_file

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    *(
        "datasets",
        "gigatoken",
        "jinja2",
        "langgraph",
        "numba",
        "numpy",
        "openai",
        "pandas",
        "prometheus_client",
    ),
    *("psutil", "pyarrow", "rich", "sentencepiece", "tokenizers", "torch"),
)


PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
CONTRACTS = tomllib.loads(PROJECT)["tool"]["importlinter"]["contracts"]
# An import that breaks each contract: the module that has it, and what it imports.
PLANTED = {
    "the floors of ingot": ("converters.planted", "from ingot.frames import x"),
    "the floors of the converters": (
        "converters.records.planted",
        "import ingot.converters.convert",
    ),
    "targets of recommendation data": (
        "converters.recsys.ctr.planted",
        "def f():\n    import ingot.converters.recsys.criteo",
    ),
    "the floors of the agent": ("agent.privacy.planted", "import ingot.agent.chat"),
    "converters know no agent": ("converters.planted", "import openai"),
    "prompts are read by the agent only": ("cli.planted", "import ingot.prompts"),
}
# All that modules take from `ingot` itself: facts of the package, no code.
OF_THE_ROOT = {"__path__", "__version__"}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of the project in a folder."""
    linter = Path(sys.executable).with_name("lint-imports")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [linter, "--no-cache"], cwd=folder, env=environment, capture_output=True, text=True
    )


def plant_tree(folder: Path) -> None:
    """Write empty packages for every module that a contract names, and the contracts."""
    names = {"ingot"}
    for contract in CONTRACTS:
        layers = [part.strip() for one in contract.get("layers", ()) for part in one.split("|")]
        names |= {f"{box}.{layer}" for box in contract.get("containers", ()) for layer in layers}
        for key in ("modules", "source_modules", "forbidden_modules"):
            names |= {name for name in contract.get(key, ()) if name.startswith("ingot.")}
    for name in names:
        for part in accumulate(name.split("."), "{}/{}".format):
            (folder / part).mkdir(exist_ok=True)
            (folder / part / "__init__.py").touch()
    (folder / "pyproject.toml").write_text(PROJECT, "utf-8")


def root_imports(tree: ast.Module) -> set[str]:
    """Return what a module takes from `ingot` itself; `import ingot` is all of it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "ingot":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name == "ingot"}
    return found


@pytest.mark.more
def test_import_contracts_hold():
    run = lint_imports(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.more
@pytest.mark.parametrize("contract", [one["name"] for one in CONTRACTS])
def test_an_import_against_a_contract_is_found(contract, tmp_path):
    ((module, text),) = (case for name, case in PLANTED.items() if contract.startswith(name))
    plant_tree(tmp_path)
    assert lint_imports(tmp_path).returncode == 0
    (tmp_path / "ingot" / module.replace(".", "/")).with_suffix(".py").write_text(text)
    assert f"{contract} BROKEN" in lint_imports(tmp_path).stdout


@pytest.mark.more
def test_a_package_on_no_floor_is_found(tmp_path):
    plant_tree(tmp_path)
    for name in ("ingot/planted", "ingot/agent/planted", "ingot/converters/planted"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    assert lint_imports(tmp_path).stdout.count("BROKEN") == 3


@pytest.mark.more
def test_modules_take_no_code_from_the_root():
    below = ("ingot.agent.", "ingot.cli.", "ingot.converters.")
    taken = {
        name: found - OF_THE_ROOT
        for name, file in modules().items()
        if name.startswith(below) and (found := root_imports(parse_file(file)))
    }
    assert {name: names for name, names in taken.items() if names} == {}


def test_an_import_from_the_root_is_found():
    text = "import ingot, ingot.agent\ndef f():\n    from ingot import convert, __version__\n"
    assert root_imports(ast.parse(text)) == {"ingot", "convert", "__version__"}


def loaded_by(program: str, arguments: list[str], tmp_path: Path) -> set[str]:
    """Top-level names in `sys.modules` after `program` ran with `arguments` in a new process."""
    report = tmp_path / "modules"
    wrapper = (
        "import atexit, pathlib, sys\n"
        f"atexit.register(lambda: pathlib.Path({str(report)!r}).write_text("
        "' '.join({name.partition('.')[0] for name in sys.modules})))\n"
        f"sys.argv[1:] = {arguments!r}\n{program}"
    )
    run = subprocess.run(
        [sys.executable, "-c", wrapper], capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    return set(report.read_text().split())


def modules_loaded_by(arguments: list[str], tmp_path: Path) -> list[str]:
    """The modules of ingot that a command has imported at its end."""
    wrapper = (
        f"import sys; sys.argv[1:] = {arguments!r}\n"
        "from ingot.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(*(name for name in sys.modules if name.startswith('ingot.')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", wrapper], capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["convert", "--help"],
        ["tokens", "build", "--help"],
        ["tokens", "verify", "--help"],
        ["ctr", "build", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments, tmp_path):
    program = "from ingot.__main__ import main\nmain()"
    assert sorted(loaded_by(program, arguments, tmp_path).intersection(HEAVY)) == []


def test_a_heavy_import_is_found(tmp_path):
    assert loaded_by("import numpy.linalg, rich", [], tmp_path) & {*HEAVY} == {"numpy", "rich"}


@pytest.mark.more
def test_a_process_of_ingot_loads_no_pandas(tmp_path):
    pytest.importorskip("pandas")
    array = "import pyarrow\npyarrow.array([1])\n"
    prepared = "from ingot.converters.imports import prepare_process\nprepare_process()\n"
    assert "pandas.core.frame" in _modules_of(array, tmp_path)
    assert "pandas.core.frame" not in _modules_of(prepared + array, tmp_path)


def _modules_of(program: str, folder: Path) -> list[str]:
    command = [sys.executable, "-c", f"{program}import sys\nprint(*sys.modules)"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return run.stdout.split()


def test_package_itself_loads_nothing_heavy(tmp_path):
    assert sorted(loaded_by("import ingot", [], tmp_path).intersection((*HEAVY, "typer"))) == []


READ = ("delimited", "dialect", "json_documents", "json_rows", "line_kinds", "text", "text_columns")
FORMATS = ("arrow", "columnar_files", "detection", "row_chunks", *READ)
SOURCES = (
    *(
        "containers",
        "documents",
        "documents.kinds",
        "documents.html_text",
        "formats",
        "storage",
        "recognizers",
        "tables",
    ),
    *(f"formats.{name}" for name in FORMATS),
    *(f"recognizers.{name}" for name in ("aliccp", "criteo", "monolith")),
    *(f"storage.{name}" for name in ("archive_directories", "archives")),
    *(f"storage.{name}" for name in ("compression", "listing", "places", "remote")),
    "tables.table_folders",
)


@pytest.mark.more
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_run_loads_no_reader_of_another_format(form, tmp_path):
    rows = [{"question": f"What is {n} and {n}?", "answer": f"It is {n + n}."} for n in range(30)]
    (tmp_path / "raw").mkdir()
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "raw" / "a.parquet")
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "raw" / "a.jsonl").write_text(lines)
    loaded = modules_loaded_by(["run", "raw", "--out", "out", *SURE], tmp_path)
    packages = ("containers", "documents", "formats", "interchange", "storage", "tables")
    found = {
        name.removeprefix("ingot.converters.sources.")
        for name in loaded
        if name.startswith("ingot.converters.sources.")
    }
    assert {name for name in found if name.startswith(packages)} <= {*SOURCES}


BUILDS = {
    "criteo": ["criteo", "preprocess", "--input-dir", f"{ROOT}/examples/criteo", "--out", "out"],
    "ctr": [
        *("ctr", "build", "--out", "out"),
        *("--skeleton", f"{ROOT}/examples/ctr/sample_skeleton_train.csv"),
        *("--common", f"{ROOT}/examples/ctr/common_features_train.csv"),
        *("--featuremap", f"{ROOT}/examples/ctr/featuremap.yaml"),
    ],
}
ENGINES = ("mapping", "convert", "records", "megatron", "lake", "export", "recsys.monolith")


@pytest.mark.more
@pytest.mark.parametrize("target", BUILDS)
def test_a_build_loads_no_text_engine_and_no_other_target(target, tmp_path):
    pytest.importorskip("numba")
    found = modules_loaded_by(BUILDS[target], tmp_path)
    loaded = [name.removeprefix("ingot.converters.") for name in found]
    # Settings that all commands share, and bare packages, which hold no code.
    shared = ("convert", "convert.options", "recsys.monolith", "mapping", "records")
    loaded = [name for name in loaded if name not in shared]
    other = "recsys.ctr" if target == "criteo" else "recsys.criteo"
    assert [name for name in loaded if name.startswith((*ENGINES, other))] == []
