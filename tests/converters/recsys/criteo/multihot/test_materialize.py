"""Archives of widened ids: against numpy and reference tables, whole or not at all."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from ingot.converters import progress
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.recsys.criteo.multihot import job
from ingot.converters.recsys.criteo.multihot.id_tables import Parameters
from ingot.converters.recsys.criteo.multihot.job import Config, link_file, materialize

PARTS = ("day_0", "day_1", "day_2")


@pytest.fixture(scope="module")
def stored(golden, tmp_path_factory):
    """A folder as torchrec's scripts write it: the last day has int64 ids."""
    folder = tmp_path_factory.mktemp("stored")
    arrays = np.load(golden / "torchrec_now_shuffled.npz")
    for name in arrays.files:
        np.save(folder / f"{name}.npy", arrays[name])
    assert np.load(folder / "day_2_sparse.npy").dtype == np.int64
    return folder


@pytest.fixture(scope="module")
def told(golden):
    return json.loads((golden / "multihot_config.json").read_text())


def config(told, *, distribution="uniform", head=False, collect=False, less=0) -> Config:
    """Parameters of the reference outputs; `less` embeddings than ids."""
    rows = [count - less for count in told["num_embeddings"]]
    if head:
        sizes = told["head_multi_hot_sizes"]
        parameters = Parameters.of(rows, None, None, sizes, distribution, "global0")
    else:
        size, least = told["multi_hot_size"], told["multi_hot_min_table_size"]
        parameters = Parameters.of(rows, size, least, None, distribution, "feature")
    return Config(parameters=parameters, collect=collect)


def files(folder: Path) -> dict[str, bytes]:
    """Every file by its name, but run.json."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "run.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def wanted(sparse: np.ndarray, tables: list[np.ndarray], rows: list[int]) -> list[np.ndarray]:
    """The matrices of a part, by numpy."""
    return [table[sparse[:, place] % rows[place]] for place, table in enumerate(tables)]


@pytest.mark.parametrize("distribution", ["uniform", "pareto"])
@pytest.mark.parametrize("version", ["4a9d018", "head"])
def test_rows_of_the_reference_tables(golden, stored, told, tmp_path, version, distribution):
    how = config(told, distribution=distribution, head=version == "head")
    made = materialize(stored, how, tmp_path / "out")
    reference = np.load(golden / f"multihot_{version}_{distribution}.npz")
    tables = []
    for place, size in enumerate(how.parameters.sizes):
        table = reference[f"table_{place}"].copy()
        table[:, 0] = np.arange(len(table))
        tables.append(table[:, :size])
    for part in PARTS:
        with np.load(made.out / f"{part}_sparse_multi_hot.npz") as archive:
            assert archive.files == [str(place) for place in range(26)]
            ids = np.load(stored / f"{part}_sparse.npy")
            for place, matrix in enumerate(wanted(ids, tables, told["num_embeddings"])):
                assert archive[str(place)].dtype == np.int32
                np.testing.assert_array_equal(archive[str(place)], matrix)


def test_ids_are_taken_modulo_and_counted(stored, told, tmp_path):
    how = config(told, collect=True, less=7)
    made = materialize(stored, how, tmp_path / "out")
    rows = how.parameters.num_embeddings
    ids = np.concatenate([np.load(stored / f"{part}_sparse.npy") for part in PARTS]) % rows
    archives = [np.load(made.out / f"{part}_sparse_multi_hot.npz") for part in PARTS]
    before, after = (
        np.load(made.out / f"stats_{when}_hash_uniform.npy", allow_pickle=True).item()
        for when in ("pre", "post")
    )
    for place, count in enumerate(rows):
        wide = np.concatenate([archive[str(place)] for archive in archives])
        np.testing.assert_array_equal(wide[:, 0], ids[:, place])
        np.testing.assert_array_equal(
            before[str(place)], np.bincount(ids[:, place], minlength=count)
        )
        np.testing.assert_array_equal(
            after[str(place)], np.bincount(wide.reshape(-1), minlength=count)
        )


def test_what_else_there_is(stored, told, tmp_path):
    how = config(told)
    made = materialize(stored, how, tmp_path / "out")
    for part in PARTS:
        for kind in ("dense", "labels"):
            name = f"{part}_{kind}.npy"
            assert (made.out / name).samefile(stored / name)
    manifest = json.loads((made.out / "manifest.json").read_text())
    assert manifest == made.manifest
    assert manifest["parts"] == [
        {"name": "day_0", "rows": 1800},
        {"name": "day_1", "rows": 1500},
        {"name": "day_2", "rows": 1650},
    ]
    assert manifest["parameters"] == how.parameters.to_json()
    there = {path.name for path in made.out.iterdir()} - {"manifest.json", "run.json"}
    assert {one["path"] for one in manifest["files"]} == there
    for one in manifest["files"]:
        content = (made.out / one["path"]).read_bytes()
        assert (one["bytes"], one["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    for one in manifest["inputs"]:
        content = (stored / one["name"]).read_bytes()
        assert one["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.more
def test_threads_and_kept_tables_change_no_byte(stored, told, tmp_path):
    how = config(told, head=True)
    first = materialize(stored, how, tmp_path / "a", threads=1)
    for number in range(2):
        out, tables = tmp_path / f"b{number}", tmp_path / "tables"
        other = materialize(stored, how, out, threads=5, tables=tables)
        assert files(other.out) == files(first.out)
    assert len(list((tmp_path / "tables").glob("multihot-*"))) == 1


@pytest.mark.more
@pytest.mark.parametrize("block", [1, 59 * 7, 59 * 1500, 59 * 1800])
def test_blocks_change_no_byte(stored, told, tmp_path, monkeypatch, block):
    how = config(told, collect=True, less=3)
    whole = materialize(stored, how, tmp_path / "whole")
    assert sum(how.parameters.sizes) == 59
    monkeypatch.setattr(job, "_VALUES", block)
    made = materialize(stored, how, tmp_path / "out", threads=3)
    assert files(made.out) == files(whole.out)


@pytest.mark.more
def test_a_result_is_found_replaced_or_in_the_way(stored, told, tmp_path):
    out = tmp_path / "out"
    assert not materialize(stored, config(told), out).already_done
    assert materialize(stored, config(told), out).already_done
    with pytest.raises(OutputError, match=r"holds another result: parameters\.sizes is"):
        materialize(stored, config(told, head=True), out)
    with pytest.raises(OutputError, match="collect_multi_hot_freqs_stats is false"):
        materialize(stored, config(told, collect=True), out)
    made = materialize(stored, config(told, head=True), out, overwrite=True)
    assert made.manifest["parameters"]["seeding"] == "global0"


def test_other_arrays_are_another_result(stored, told, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for path in stored.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    materialize(folder, config(told), out)
    os.utime(folder / "day_0_sparse.npy", (1, 1))  # another time, the same content
    assert materialize(folder, config(told), out).already_done
    ids = np.load(folder / "day_0_sparse.npy")
    ids[0, 0] = 5
    np.save(folder / "day_0_sparse.npy", ids)
    with pytest.raises(OutputError, match="holds another result: other input files"):
        materialize(folder, config(told), out)


@pytest.mark.parametrize(("below", "what"), [("", "the data"), ("t", "the tables")])
def test_the_result_replaces_neither_data_nor_tables(stored, told, tmp_path, below, what):
    out = tmp_path / "out"
    folder, tables = (stored, out / below) if below else (out / "data", None)
    if not below:
        folder.mkdir(parents=True)
    with pytest.raises(OutputError, match=f"is where {what} are, or a folder around it"):
        materialize(folder, config(told), out, tables=tables, overwrite=True)


def test_a_folder_without_arrays(told, tmp_path):
    with pytest.raises(SourceError, match="no arrays"):
        materialize(tmp_path, config(told), tmp_path / "out")


def test_a_link_takes_the_place_of_what_is_there(tmp_path):
    source, target = tmp_path / "a.npy", tmp_path / "b.npy"
    source.write_bytes(b"values")
    assert link_file(source, target)
    assert link_file(source, target)  # what a killed run left is no hindrance
    assert target.samefile(source)


def test_a_copy_where_links_cannot_be(tmp_path):
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system")
    target = tmp_path / "b.npy"
    with tempfile.NamedTemporaryFile(dir=memory) as source:
        source.write(b"values")
        source.flush()
        assert not link_file(Path(source.name), target)
    assert target.read_bytes() == b"values"


def test_a_run_that_is_to_end_keeps_its_finished_parts(stored, told, tmp_path):
    whole, out = materialize(stored, config(told), tmp_path / "whole"), tmp_path / "out"
    shown = []

    def end_after_one(now: progress.Progress) -> None:
        shown.append(now)
        if now.shards_done == 1:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(progress.TerminatedError), progress.drain_on_sigterm():
        materialize(stored, config(told), out, progress=end_after_one)
    assert [one.shards_done for one in shown] == [0, 0, 1]
    assert not out.exists()
    (part,) = tmp_path.glob(".out.ingot-stage-*/result/*.npz")
    changed = part.stat().st_mtime_ns
    materialize(stored, config(told), out)
    assert (out / part.name).stat().st_mtime_ns == changed
    assert files(out) == files(whole.out)


RUN = """
import sys
from pathlib import Path
from ingot.converters.recsys.criteo.multihot.job import load_config, materialize
materialize(Path(sys.argv[1]), load_config(Path(sys.argv[2])), Path(sys.argv[3]), threads=2)
"""


@pytest.mark.long
@pytest.mark.parametrize("collect", [False, True])
def test_a_killed_run_is_gone_on_with(tmp_path, collect):
    """Killed 12 times at moments all over a run: the bytes are those of an undisturbed one."""
    rng = np.random.default_rng(3)
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for day, rows in enumerate((40_000, 50_000, 30_000)):
        np.save(folder / f"day_{day}_dense.npy", np.zeros((rows, 13), np.float32))
        np.save(folder / f"day_{day}_labels.npy", np.zeros((rows, 1), np.int32))
        np.save(folder / f"day_{day}_sparse.npy", rng.integers(0, 90_000, (rows, 26), np.int32))
    document = {
        "num_embeddings": [60_000] * 26,
        "multi_hot_size": 8,
        "multi_hot_min_table_size": 1,
        "collect_multi_hot_freqs_stats": collect,
    }
    how = tmp_path / "hot.json"
    how.write_text(json.dumps(document))
    command = [sys.executable, "-c", RUN, str(folder), str(how)]
    began = time.monotonic()
    subprocess.run([*command, str(tmp_path / "calm")], check=True)
    lasted, killed = time.monotonic() - began, 0
    for moment in np.linspace(0.3, 1.0, 12):
        process = subprocess.Popen([*command, str(out)])
        try:
            process.wait(moment * lasted)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
            assert not out.exists() or (out / "manifest.json").exists()
    subprocess.run([*command, str(out)], check=True)
    assert killed
    assert files(out) == files(tmp_path / "calm")
    assert not list(tmp_path.glob(".out*"))
