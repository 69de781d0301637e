"""Jobs on a Ray cluster of two nodes: the bytes of one machine, also where a node is killed."""

import os
import random
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.output.ray_workers import RayWorkers
from ingot.converters.output.worker_pool import TaskFailure, WorkerDiedError, results_in_order
from tests.s3_server import Storage, s3_storage
from tests.scale.jobs import JOBS, RESULT, Job, ingot, joined_tokens, tree

pytestmark = [
    # Ray leaves sockets of processes that were killed to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
KILLS = int(os.environ.get("RAY_KILLS", "2"))


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    """A store that the nodes know from their environment."""
    with s3_storage() as made, pytest.MonkeyPatch.context() as patch:
        made.put("bucket", {})
        for name, value in made.environment().items():
            patch.setenv(name, value)
        yield made


@pytest.fixture(scope="module")
def cluster(storage: Storage) -> Iterator[Any]:
    utils = pytest.importorskip("ray.cluster_utils")
    made = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    made.nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    made.wait_for_nodes()
    yield made
    made.shutdown()


def kill_node(cluster: Any, number: int) -> None:
    cluster.remove_node(cluster.nodes[number], allow_graceful=False)
    cluster.nodes[number] = cluster.add_node(num_cpus=1)


# One job in every run of the suite's second half; the others take longer, and use the same workers.
@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.more if name == "convert" else pytest.mark.long)
        for name in JOBS
    ]
)
def job(request: pytest.FixtureRequest) -> Job:
    return JOBS[request.param]


def test_killed_nodes_change_no_byte(
    job: Job, cluster: Any, tmp_path: Path, record_property: Any
) -> None:
    job.prepare(tmp_path)
    assert ingot(tmp_path, *job.words).returncode == 0
    whole = tree(tmp_path / RESULT)
    shutil.rmtree(tmp_path / RESULT)
    words = (*job.words, "--runner", "ray", "--ray-address", cluster.address)
    started = time.monotonic()
    done = ingot(tmp_path, *words)
    calm = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / RESULT) == whole
    dice, midway = random.Random(job.name), 0
    for _ in range(KILLS):
        shutil.rmtree(tmp_path / RESULT)
        ended: list[Any] = []
        run = threading.Thread(target=lambda: ended.append(ingot(tmp_path, *words)))  # noqa: B023
        run.start()
        time.sleep(dice.uniform(0.3, 0.95) * calm)
        midway += run.is_alive()
        kill_node(cluster, dice.randrange(2))
        run.join()
        assert ended[0].returncode == 0, ended[0].stderr
        assert tree(tmp_path / RESULT) == whole
    record_property("killed in the middle of a run", f"{midway} of {KILLS}")


@pytest.mark.long
def test_tokens_in_a_store_of_a_node_that_is_killed(
    cluster: Any, storage: Storage, tmp_path: Path
) -> None:
    job, url = JOBS["tokens"], "s3://bucket/t"
    job.prepare(tmp_path)
    assert ingot(tmp_path, *job.words).returncode == 0
    storage.put(
        "bucket", {f"src/{one.name}": one.read_bytes() for one in (tmp_path / "src").iterdir()}
    )
    words = [{"src": "s3://bucket/src", "o/t": url}.get(word, word) for word in job.words]
    ended: list[Any] = []
    words += ["--runner", "ray", "--ray-address", cluster.address]
    run = threading.Thread(target=lambda: ended.append(ingot(tmp_path, *words)))
    run.start()
    limit = time.monotonic() + 120
    while run.is_alive() and not any(
        name.endswith(".idx") for name in storage.names("bucket", "t/")
    ):
        assert time.monotonic() < limit
    kill_node(cluster, 0)
    run.join()
    assert ended[0].returncode == 0, ended[0].stderr
    whole = {name: data for name, data in tree(tmp_path / RESULT).items() if "meta" not in name}
    assert joined_tokens(tmp_path, url) == whole


def _double(number: int) -> int:
    if number == 13:
        raise ConversionError("task 13", "brings no luck")
    return 2 * number


def _die(number: int) -> int:
    if number == 3:
        os._exit(1)
    return number


@pytest.mark.more
def test_results_and_errors_come_as_from_other_runners(cluster: Any) -> None:
    with RayWorkers(cluster.address) as workers:
        assert workers.jobs >= 2
        assert list(results_in_order(workers, _double, range(10), window=4)) == list(
            range(0, 20, 2)
        )
        with pytest.raises(ConversionError, match="brings no luck") as raised:
            list(results_in_order(workers, _double, range(20), window=4))
        assert "_double" in "".join(raised.value.__notes__)
        spread = dict(workers.spread(_double, [1, 13]))
        assert spread[1] == 2
        assert isinstance(spread[13], TaskFailure)


@pytest.mark.more
def test_a_task_that_kills_every_process(cluster: Any) -> None:
    with RayWorkers(cluster.address) as workers:
        with pytest.raises(WorkerDiedError, match="died") as raised:
            list(results_in_order(workers, _die, range(5), window=2))
        assert "11 times" in raised.value.how


@pytest.mark.more
def test_no_cluster_at_the_address(tmp_path: Path) -> None:
    job = JOBS["convert"]
    job.prepare(tmp_path)
    words = ("--runner", "ray", "--ray-address", "127.0.0.1:9")
    done = ingot(tmp_path, *job.words, *words)
    assert done.returncode == 1
    assert "no Ray cluster" in done.stderr
