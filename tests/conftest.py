"""What every test runs under: no network by accident, no state of the user, repeatable examples."""

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.kernels import compile_kernels

# Approve what the rules are less sure of than the default asks for: tests of what comes after it.
SURE = ("--yes", "--min-confidence=0.6")

if TYPE_CHECKING:
    from tests.s3_server import Storage


def first_quick(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """Cases for `parametrize` of which the first few are of `make test`, all of `test-more`."""
    params = [_as_param(one) for one in cases]
    late = [pytest.param(*one.values, id=one.id, marks=[*one.marks, MORE]) for one in params]
    return [*params[:quick], *late[quick:]]


def first_more(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Cases for `parametrize` of which `test-long` alone runs all but the first few."""
    params = [_as_param(one) for one in cases]
    return [*params[:count], *map(_leave_to_long, params[count:])]


def one_of_each(cases: Iterable[Any], kind: Callable[..., Any]) -> list[Any]:
    """Cases for `parametrize` of which `test-long` alone runs those of a kind that came before."""
    params, seen = [_as_param(one) for one in cases], []
    for number, param in enumerate(params):
        found = kind(*param.values)
        if found in seen:
            params[number] = _leave_to_long(param)
        seen.append(found)
    return params


def _leave_to_long(param: Any) -> Any:
    return pytest.param(*param.values, id=param.id, marks=[*param.marks, pytest.mark.long])


def _as_param(case: Any) -> Any:
    if hasattr(case, "marks"):
        return case
    return pytest.param(*case) if isinstance(case, tuple) else pytest.param(case)


MORE = pytest.mark.more

# Tests run side by side: the threads of several trainings would only wait for each other. Read when
# torch is imported, so it is set here.
os.environ.setdefault("OMP_NUM_THREADS", "1")

hypothesis.settings.register_profile("ingot", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("ingot")

# `make test` and `make test-more` draw fewer examples of each property; `make test-long` all.
QUICK_SHARE = 4
LEAST_EXAMPLES = 10

# What they bring is not among what `make test` installs: torch, Ray, browsers, peers.
HEAVY_FIXTURES = {"browser", "jagged_tensor", "megatron", "ray_cluster", "torchrec"}

FOREIGN_SETTINGS = ("INGOT_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LANGSMITH_TRACING")


def pytest_configure(config: pytest.Config) -> None:
    """Let interrupts interrupt; compile kernels once where several processes run the suite."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    several = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if several and config.args == config.getini("testpaths"):
        compile_kernels()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to draw all examples of properties."""
    parser.addoption("--all-examples", action="store_true", help="draw all examples of properties")


def pytest_collection_finish() -> None:
    """Leave what was collected out of the garbage collector's rounds: it stays to the end."""
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave to `make test-more` what only it installs; draw fewer examples of properties."""
    if not HEAVY_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.more)
    if not item.config.getoption("--all-examples"):
        _draw_fewer_examples(item)


def _draw_fewer_examples(item: pytest.Item) -> None:
    test = getattr(item, "obj", None)
    attribute = "_hypothesis_internal_use_settings"
    given = getattr(test, attribute, None)
    if given is None:
        return
    few = max(LEAST_EXAMPLES, given.max_examples // QUICK_SHARE)
    function = getattr(test, "__func__", test)
    if not hasattr(function, "quick"):  # parametrized tests are one function
        setattr(
            function,
            attribute,
            hypothesis.settings(given, max_examples=min(few, given.max_examples)),
        )
        function.quick = True


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


@pytest.fixture(scope="session")
def _s3_server() -> "Iterator[Storage]":
    from tests.s3_server import s3_storage

    with s3_storage() as storage:
        storage.put("bucket", {})
        yield storage


@pytest.fixture
def s3(_s3_server: "Storage", monkeypatch: pytest.MonkeyPatch) -> "Storage":
    """An S3 server with the bucket `bucket`, of which the environment tells; no faults yet."""
    from ingot.converters.output import object_store

    for name, value in _s3_server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(object_store, "_FIRST_WAIT", 0.01)
    monkeypatch.setenv("INGOT_STORAGE_TIMEOUT", "2")
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "3")
    _s3_server.proxy.begin()
    return _s3_server


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """A Ray cluster of two nodes with a processor each, beside a head that does no tasks."""
    utils = pytest.importorskip("ray.cluster_utils")
    made = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    made.nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    made.wait_for_nodes()
    yield made
    made.shutdown()


_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_NO_NETWORK = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.*"


@pytest.fixture(scope="module")  # while it runs, other tests can start no event loop
def browser() -> Iterator[Any]:
    """The system's Chromium without a network; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright to drive it")
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this system")
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", _NO_NETWORK]
        running = driver.chromium.launch(executable_path=found, args=flags)
        yield running
        running.close()
