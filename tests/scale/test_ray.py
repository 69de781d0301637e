"""Jobs on a Ray cluster of two nodes: the bytes of one machine, also where a node is killed."""

import os
import random
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.output import ray_workers
from ingot.converters.output.ray_workers import RayWorkers
from ingot.converters.output.worker_pool import TaskFailure, WorkerDiedError, results_in_order
from tests.s3_server import Storage
from tests.scale.jobs import (
    JOBS,
    RECSYS_JOBS,
    RESULT,
    Job,
    in_store,
    ingot,
    ingot_alone,
    joined_tokens,
    tree,
)

pytestmark = [
    # Ray leaves sockets of processes that were killed to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
ALL = {**JOBS, **RECSYS_JOBS}
# Two of text and one of recommendation data in CI; the others use the same workers.
RUN_BY_CI = ("convert", "lake", "criteo")
KILLS = int(os.environ.get("RAY_KILLS", "2"))


def kill_node(ray_cluster: Any, number: int) -> None:
    ray_cluster.remove_node(ray_cluster.nodes[number], allow_graceful=False)
    ray_cluster.nodes[number] = ray_cluster.add_node(num_cpus=1)


@pytest.mark.more
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(job, id=name, marks=[] if name in RUN_BY_CI else [pytest.mark.long])
        for name, job in ALL.items()
    ],
)
def test_a_cluster_makes_what_one_machine_makes(job: Job, ray_cluster: Any, tmp_path: Path) -> None:
    job.prepare(tmp_path)
    assert ingot(tmp_path, *job.words).returncode == 0
    whole = tree(tmp_path / RESULT)
    shutil.rmtree(tmp_path / RESULT)
    done = ingot_alone(
        tmp_path, *job.words, "--runner", "ray", "--ray-address", ray_cluster.address
    )
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / RESULT) == whole


# One job in every run of the suite's second half; the others use the same workers.
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(
            job, id=name, marks=getattr(pytest.mark, "more" if name == "convert" else "long")
        )
        for name, job in ALL.items()
    ],
)
def test_killed_nodes_change_no_byte(
    job: Job, ray_cluster: Any, tmp_path: Path, record_property: Any
) -> None:
    job.prepare(tmp_path)
    assert ingot(tmp_path, *job.words).returncode == 0
    whole = tree(tmp_path / RESULT)
    shutil.rmtree(tmp_path / RESULT)
    words = (*job.words, "--runner", "ray", "--ray-address", ray_cluster.address)
    started = time.monotonic()
    done = ingot_alone(tmp_path, *words)
    calm = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / RESULT) == whole
    dice, midway = random.Random(job.name), 0
    for _ in range(KILLS):
        shutil.rmtree(tmp_path / RESULT)
        ended: list[Any] = []
        run = threading.Thread(target=lambda: ended.append(ingot_alone(tmp_path, *words)))  # noqa: B023
        run.start()
        time.sleep(dice.uniform(0.3, 0.95) * calm)
        midway += run.is_alive()
        kill_node(ray_cluster, dice.randrange(2))
        run.join()
        assert ended[0].returncode == 0, ended[0].stderr
        assert tree(tmp_path / RESULT) == whole
    record_property("killed in the middle of a run", f"{midway} of {KILLS}")


@pytest.mark.long
def test_tokens_in_a_store_of_a_node_that_is_killed(
    ray_cluster: Any, s3: Storage, tmp_path: Path
) -> None:
    for number in range(2):  # the new ones know the store from the environment
        kill_node(ray_cluster, number)
    words, url = in_store(JOBS["tokens"], s3, tmp_path)
    words += ["--runner", "ray", "--ray-address", ray_cluster.address]
    ended: list[Any] = []
    run = threading.Thread(target=lambda: ended.append(ingot_alone(tmp_path, *words)))
    run.start()
    limit, place = time.monotonic() + 120, f"{tmp_path.name}/out/"
    while run.is_alive() and not any(n.endswith(".idx") for n in s3.names("bucket", place)):
        assert time.monotonic() < limit
    kill_node(ray_cluster, 0)
    run.join()
    assert ended[0].returncode == 0, ended[0].stderr
    assert joined_tokens(tmp_path, url) == tree(tmp_path / RESULT)


def _double(number: int) -> int:
    if number == 13:
        raise ConversionError("task 13", "brings no luck")
    return 2 * number


def _die(number: int) -> int:
    if number == 3:
        os._exit(1)
    return number


@pytest.mark.more
def test_results_and_errors_come_as_from_other_runners(ray_cluster: Any) -> None:
    with RayWorkers(ray_cluster.address) as workers:
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
def test_a_task_that_kills_every_process(ray_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_workers, "_RETRIES", 2)
    with RayWorkers(ray_cluster.address) as workers:
        with pytest.raises(WorkerDiedError, match="died") as raised:
            list(results_in_order(workers, _die, range(5), window=2))
        assert "3 times" in raised.value.end_text


@pytest.mark.more
def test_no_cluster_at_the_address(tmp_path: Path) -> None:
    job = JOBS["convert"]
    job.prepare(tmp_path)
    words = ("--runner", "ray", "--ray-address", "127.0.0.1:9")
    done = ingot_alone(tmp_path, *job.words, *words)
    assert done.returncode == 1
    assert "no Ray cluster" in done.stderr
