"""What every test runs under: no network by accident, no state of the user, repeatable examples."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.kernels import compile_kernels

# Tests run side by side: the threads of several trainings would only wait for each other. Read when
# torch is imported, so it is set here.
os.environ.setdefault("OMP_NUM_THREADS", "1")

hypothesis.settings.register_profile("ingot", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("ingot")

FOREIGN_SETTINGS = ("INGOT_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LANGSMITH_TRACING")


def pytest_configure(config: pytest.Config) -> None:
    """Compile kernels once where the whole suite is run by several processes."""
    several = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if several and config.args == config.getini("testpaths"):
        compile_kernels()


@pytest.fixture(autouse=True, scope="session")
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Settings of the person at the keyboard reach no test; state goes to a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in FOREIGN_SETTINGS:
            patch.delenv(name, raising=False)
        patch.setenv("INGOT_HOME", str(tmp_path_factory.mktemp("ingot-home")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_DATASETS_OFFLINE", "1")
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout that the tests belong to."""
    return Path(__file__).resolve().parent.parent
