"""The scripts of benchmarks/criteo, imported by their paths."""

import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks" / "criteo"


if str(BENCHMARKS) not in sys.path:  # as where they are run
    sys.path.append(str(BENCHMARKS))


def script(name: str) -> ModuleType:
    module_name = f"criteo_{name}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def generator() -> ModuleType:
    return script("generate")


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    return script("reference")


@pytest.fixture(scope="session")
def estimate() -> ModuleType:
    return script("estimate")


@pytest.fixture(scope="session")
def benchmark() -> ModuleType:
    return script("preprocess")


@pytest.fixture(scope="session")
def lines() -> ModuleType:
    return import_module("criteo_lines")
