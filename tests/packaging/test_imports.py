"""The direction of imports, and what a start of the command costs."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import SURE

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


def test_import_contracts_hold():
    linter = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


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


def test_package_itself_loads_nothing_heavy(tmp_path):
    assert sorted(loaded_by("import ingot", [], tmp_path).intersection((*HEAVY, "typer"))) == []


READ = ("delimited", "dialect", "json_documents", "json_rows", "line_kinds", "text", "text_columns")
FORMATS = ("arrow", "columnar_files", "detection", "row_chunks", *READ)
SOURCES = (
    *("containers", "documents", "documents.kinds", "formats", "storage", "recognizers", "tables"),
    *(f"formats.{name}" for name in FORMATS),
    *(f"recognizers.{name}" for name in ("aliccp", "criteo", "monolith")),
    *(f"storage.{name}" for name in ("archive_directories", "archives")),
    *(f"storage.{name}" for name in ("compression", "listing", "remote")),
    "tables.table_folders",
)


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


@pytest.mark.parametrize("target", BUILDS)
def test_a_build_loads_no_text_engine_and_no_other_target(target, tmp_path):
    pytest.importorskip("numba")
    found = modules_loaded_by(BUILDS[target], tmp_path)
    loaded = [name.removeprefix("ingot.converters.") for name in found]
    # Settings that all commands share, and bare packages, which hold no code.
    doors = ("convert", "convert.options", "recsys.monolith", "mapping", "records")
    loaded = [name for name in loaded if name not in doors]
    other = "recsys.ctr" if target == "criteo" else "recsys.criteo"
    assert [name for name in loaded if name.startswith((*ENGINES, other))] == []
