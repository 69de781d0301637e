"""Recommendation data on a Ray cluster of two nodes, and where nodes are killed: the same bytes."""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.converters.recsys.criteo.lines import content

pytestmark = [
    # Ray leaves sockets of processes that were killed to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
KILLS = int(os.environ.get("RAY_KILLS", "2"))
SAMPLE = Path(__file__).parents[2] / "golden/monolith/mono_example_sortid.pb"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    utils = pytest.importorskip("ray.cluster_utils")
    made = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    made.nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    made.wait_for_nodes()
    yield made
    made.shutdown()


def write_days(folder: Path) -> tuple[str, ...]:
    for day in range(5):
        text = content(4000 + 100 * day, day, values=900) + b"no row\n"
        (folder / f"day_{day}").write_bytes(text)
    how = ("--frequency-threshold", "3", "--threads", "1")
    return ("criteo", "preprocess", "--input-dir", str(folder), *how, "--out")


def write_streams(folder: Path) -> tuple[str, ...]:
    for number in range(12):
        (folder / f"{number}.pb").write_bytes(SAMPLE.read_bytes() * (40 + number))
    return ("monolith", "convert", str(folder), "--from", "example", "--to", "parquet")


JOBS = {"criteo": write_days, "monolith": write_streams}


def ingot(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ingot", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "run.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.more
@pytest.mark.parametrize("name", JOBS)
def test_a_cluster_makes_what_one_machine_makes(name: str, cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    words, out = JOBS[name](tmp_path / "raw"), tmp_path / "out"
    assert ingot(*words, f"{tmp_path}/whole/").returncode == 0
    done = ingot(*words, f"{out}/", "--runner", "ray", "--ray-address", cluster.address)
    assert done.returncode == 0, done.stderr
    assert tree(out) == tree(tmp_path / "whole")


@pytest.mark.long
@pytest.mark.parametrize("name", JOBS)
def test_killed_nodes_change_no_byte(
    name: str, cluster: Any, tmp_path: Path, record_property: Any
) -> None:
    (tmp_path / "raw").mkdir()
    words, out = JOBS[name](tmp_path / "raw"), tmp_path / "out"
    assert ingot(*words, f"{tmp_path}/whole/").returncode == 0
    words = (*words, f"{out}/", "--runner", "ray", "--ray-address", cluster.address)
    started = time.monotonic()
    assert ingot(*words).returncode == 0
    calm = time.monotonic() - started
    dice, midway = random.Random(name), 0
    for _ in range(KILLS):
        shutil.rmtree(out)
        ended: list[Any] = []
        run = threading.Thread(target=lambda: ended.append(ingot(*words)))  # noqa: B023
        run.start()
        time.sleep(dice.uniform(0.3, 0.95) * calm)
        midway += run.is_alive()
        number = dice.randrange(2)
        cluster.remove_node(cluster.nodes[number], allow_graceful=False)
        cluster.nodes[number] = cluster.add_node(num_cpus=1)
        run.join()
        assert ended[0].returncode == 0, ended[0].stderr
        assert tree(out) == tree(tmp_path / "whole")
    record_property("killed in the middle of a run", f"{midway} of {KILLS}")
