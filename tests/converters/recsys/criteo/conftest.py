"""Reference outputs, the real torchrec, and a folder for many small runs."""

import importlib
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def golden(repository: Path) -> Path:
    """The folder of the reference outputs."""
    return repository / "tests" / "golden" / "criteo"


@pytest.fixture(scope="session")
def jagged_tensor() -> ModuleType:
    """The module of torchrec's `KeyedJaggedTensor`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, at the first import
        pytest.importorskip("torchrec", reason="torchrec is not installed: Linux alone has wheels")
        return importlib.import_module("torchrec.sparse.jagged_tensor")


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """An empty folder in memory, where the system has one: every run syncs a hundred files."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="ingot-test-", dir=memory))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
