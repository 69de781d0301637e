"""The direction of imports, and what a start of the command costs."""

import subprocess
import sys
from pathlib import Path

import pytest

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
    wrapper = (
        f"import sys; sys.argv[1:] = {BUILDS[target]!r}\n"
        "from ingot.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(*(name for name in sys.modules if name.startswith('ingot.')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", wrapper], capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    loaded = [
        name.removeprefix("ingot.converters.") for name in run.stdout.splitlines()[-1].split()
    ]
    # Settings that all commands share, and bare packages, which hold no code.
    doors = ("convert", "convert.options", "recsys.monolith", "mapping", "records")
    loaded = [name for name in loaded if name not in doors]
    other = "recsys.ctr" if target == "criteo" else "recsys.criteo"
    assert [name for name in loaded if name.startswith((*ENGINES, other))] == []
