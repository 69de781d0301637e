"""Kernels: when they are compiled, what is cached, and where they cannot be compiled."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import CLICKS, MONOLITH, ROOT, RUN_ALL

CALLER = """
from pathlib import Path
from typing import NamedTuple
import numpy as np
from ingot.converters.kernels.compile import announce_compiling, kernel
from callee import BASE, scale

class Pair(NamedTuple):
    one: np.ndarray
    two: np.ndarray

TABLE = np.array([BASE, 2])

@kernel
def total(pair):
    return scale(pair.one[0]) + pair.two[0] + TABLE[0]

announce_compiling(print)
print(total(Pair(np.array([1]), np.array([3]))))
"""
CALLEE = """
from ingot.converters.kernels.compile import kernel
BASE = 100

@kernel
def scale(value):
    return 10 * value
"""


def run_caller(folder: Path, cache: Path, **environment: str) -> list[str]:
    """The lines that a process prints which calls the kernel of `caller.py`."""
    code = "import sys; sys.dont_write_bytecode = True; import runpy; runpy.run_path('caller.py')"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={
            **os.environ,
            "NUMBA_CACHE_DIR": str(cache),
            "XDG_CACHE_HOME": str(cache / "user"),
            "PYTHONPATH": f"{folder}{os.pathsep}{Path.cwd()}",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    return ran.stdout.splitlines()


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """A folder with a kernel that calls one of another module."""
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "callee.py").write_text(CALLEE)
    return tmp_path


@pytest.mark.more
def test_kernels_are_compiled_once_and_that_is_said(kernels: Path):
    notice = "compiling kernels (once, about 1 s)"
    assert run_caller(kernels, kernels / "cache") == [notice, "113"]
    assert run_caller(kernels, kernels / "cache") == ["113"]


@pytest.mark.more
@pytest.mark.parametrize(
    ("file", "old", "new", "made"),
    [
        ("callee.py", "10 * value", "20 * value", "123"),
        ("callee.py", "BASE = 100", "BASE = 200", "213"),
        ("caller.py", "    one: np.ndarray\n    two:", "    two: np.ndarray\n    one:", "131"),
    ],
)
def test_what_a_kernel_calls_is_never_stale(
    kernels: Path, file: str, old: str, new: str, made: str
):
    run_caller(kernels, kernels / "cache")
    path, facts = kernels / file, (kernels / file).stat()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # nor by the time of change
    assert run_caller(kernels, kernels / "cache")[-2:] == [
        "compiling kernels (once, about 1 s)",
        made,
    ]


@pytest.mark.more
def test_another_processor_has_code_of_its_own(kernels: Path):
    run_caller(kernels, kernels / "cache")
    generic = {"NUMBA_CPU_NAME": "generic"}
    assert len(run_caller(kernels, kernels / "cache", **generic)) == 2
    assert len(run_caller(kernels, kernels / "cache", **generic)) == 1


@pytest.mark.more
def test_damaged_code_is_compiled_again(kernels: Path):
    run_caller(kernels, kernels / "cache")
    for path in (kernels / "cache" / "ingot").glob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    assert run_caller(kernels, kernels / "cache")[-1] == "113"


@pytest.mark.more
@pytest.mark.parametrize(
    "content",
    [b"cgone_module\nname\n.", pytest.param(b"cos\ngone\n.", marks=pytest.mark.more)],
)
def test_code_that_names_a_module_of_another_release_is_compiled_again(
    kernels: Path, content: bytes
):
    run_caller(kernels, kernels / "cache")
    for path in (kernels / "cache" / "ingot").glob("*.nbc"):
        path.write_bytes(content)
    assert run_caller(kernels, kernels / "cache")[-1] == "113"


@pytest.mark.more
def test_kernels_that_cannot_be_cached_are_compiled_all_the_same(kernels: Path):
    nowhere = kernels / "file"
    nowhere.write_text("")
    assert run_caller(kernels, nowhere)[-1] == "113"


@pytest.mark.more
def test_code_of_a_folder_that_is_only_read_is_used(kernels: Path):
    cache = kernels / "cache"
    run_caller(kernels, cache)
    held = {path.name: path.stat().st_mtime_ns for path in (cache / "ingot").iterdir()}
    (cache / "ingot").chmod(0o555)
    assert run_caller(kernels, cache, XDG_CACHE_HOME=str(kernels / "user")) == ["113"]
    (cache / "ingot").chmod(0o755)
    assert held == {path.name: path.stat().st_mtime_ns for path in (cache / "ingot").iterdir()}


@pytest.mark.more
def test_warm_compiles_what_the_commands_need(tmp_path: Path):
    """Then no command compiles anything, and everybody can read the code."""
    cache = tmp_path / "cache"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache)}

    def run(*commands: str) -> None:
        words = [sys.executable, "-c", RUN_ALL, *commands]
        subprocess.run(words, env=environment, check=True, cwd=ROOT, umask=0o077)

    run("warm")
    files = set((cache / "ingot").iterdir())
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o644"}
    assert (cache / "ingot").stat().st_mode & 0o777 == 0o755
    run(*(command.format(tmp_path) for command in (*CLICKS, *MONOLITH)))
    more = {path.name.rpartition("-")[0] for path in set((cache / "ingot").iterdir()) - files}
    assert not more, sorted(more)


def test_kernels_of_monolith_take_at_most_eight_parameters():
    """Arrays that belong together are one structure."""
    for path in (ROOT / "converters" / "recsys" / "monolith").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                kernel = any("kernel" in ast.unparse(one) for one in node.decorator_list)
                assert not kernel or len(node.args.args) <= 8, (path, node.name)


WITHOUT = """
import sys
sys.modules["numba"] = None
import importlib.util
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "numba" else known(name, *more)
import ingot.converters.recsys.ctr.preprocess.job
from ingot.converters.recsys.ctr.preprocess.vocabulary import Interner
import numpy as np
try:
    Interner().add(np.zeros(1, np.uint8), np.zeros(1, np.int64), np.ones(1, np.int32))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.more
def test_an_install_without_numba_imports_the_build_and_names_the_extra():
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert run.stderr == ""
    assert run.stdout.startswith("ConversionError ")
    assert "pip install 'ingot[recsys]'" in run.stdout


def test_no_file_of_the_current_folder_names_the_cache(tmp_path):
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: evil\ncpu_name: generic\nopt: 0\n")
    code = (
        "from ingot.converters.kernels.compile import cache_folders, kernel\n"
        "kernel(lambda x: x)\nimport numba\nprint(cache_folders(), numba.config.OPT)"
    )
    own = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    told = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, env=own, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    assert "evil" not in told.stdout
    assert told.stdout.split()[-1] == "_OptLevel(3)"
