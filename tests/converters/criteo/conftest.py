"""Reference outputs, and the real torchrec."""

import importlib
import warnings
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
        return importlib.import_module("torchrec.sparse.jagged_tensor")
