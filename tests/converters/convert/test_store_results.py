"""Results in object stores: the bytes of local ones, whole or without a manifest."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ingot.converters.convert import plan
from ingot.converters.convert.job import ConvertOptions, Result, convert
from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.mapping.bind import bind
from ingot.converters.output import object_store, store_commit
from ingot.converters.sources import open_source
from tests.s3_server import Asked, Fault, Storage, drawn

PT = {"version": 2, "text": "text", "meta": {"original_id": "n"}}
OTHER = {"version": 2, "text": "other", "meta": {"original_id": "n"}}
SHARD_BYTES = 5_000
FAULTS = (
    Fault(status=500),
    Fault(status=503),
    Fault(cut=-1),
    Fault(cut=5),
    Fault(half=True),
    Fault(lost=True),
    Fault(stall=1.5),
    Fault(rate=20_000),
)
# A process of its own that can be killed: its words are the source, the URL, the workers.
RUN = f"""
import json, sys
from ingot.converters.convert import plan
from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import open_source
plan.SHARD_BYTES = {SHARD_BYTES}
source, url, workers, mapping = sys.argv[1:]
options = ConvertOptions(workers=int(workers))
convert(open_source(source), bind(json.loads(mapping), ()), url, options)
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_STORAGE_TIMEOUT", "1")


@pytest.fixture(params=["s3", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        request.getfixturevalue("s3")
        return f"s3://bucket/{tmp_path.name}/out"
    return f"memory://{tmp_path.name}/out"


@pytest.fixture
def plain_url(tmp_path: Path) -> str:
    """A store of fsspec that is nothing but that."""
    return f"memory://{tmp_path.name}/out"


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SHARD_BYTES", SHARD_BYTES)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Five shards, of which one gives no records."""
    (tmp_path / "raw").mkdir()
    for number in range(5):
        rows = [
            {"text": None if number == 2 or n % 9 == 8 else f"text {n} " * 20, "n": n, "other": "o"}
            for n in range(30)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"raw/{number}.jsonl").write_text(lines)
    return tmp_path / "raw"


def run(raw: Path, out: Path | str, document: dict[str, Any] = PT, **options: Any) -> Result:
    settings = ConvertOptions(**{"workers": 1, **options})
    return convert(open_source(str(raw)), bind(document, ()), out, settings)


def tree(place: Path | str) -> dict[str, bytes]:
    """Every file of a result but run.json; of a store past what ingot reads it with."""
    if isinstance(place, Path):
        files = {p.relative_to(place).as_posix(): p for p in place.rglob("*") if p.is_file()}
        return {name: p.read_bytes() for name, p in sorted(files.items()) if name != "run.json"}
    if place.startswith("s3://"):
        known = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"], "use_listings_cache": False}
    else:
        known = {}
    system, path = fsspec.core.url_to_fs(place, **known)
    found = {name.removeprefix(path).lstrip("/"): name for name in system.find(path)}
    return {n: system.cat_file(found[n]) for n in sorted(found) if n != "run.json"}


def told(url: str) -> dict[str, Any]:
    return object_store.read_json(f"{url}/run.json") or {}


@pytest.mark.more
@pytest.mark.parametrize("records", ["parquet", "jsonl"])
def test_a_store_has_the_bytes_of_a_folder(
    url: str, raw: Path, tmp_path: Path, records: str
) -> None:
    here = run(raw, tmp_path / "here", records=records)
    there = run(raw, url, records=records)
    assert tree(url) == tree(tmp_path / "here")
    assert (there.out, there.manifest, there.first_rejects) == (
        url,
        here.manifest,
        here.first_rejects,
    )
    assert told(url) == there.run
    assert (there.run["resumed"], there.run["shards_found"]) == (False, 0)
    again = run(raw, url, records=records)
    assert (again.already_done, again.manifest) == (True, here.manifest)


@pytest.mark.more
@pytest.mark.parametrize("options", [{"limit": 50}, {"workers": 3}])
def test_limits_and_workers(s3: Storage, raw: Path, tmp_path: Path, options: dict) -> None:
    url = f"s3://bucket/{tmp_path.name}/out"
    run(raw, tmp_path / "here", **options)
    run(raw, url, **options)
    assert tree(url) == tree(tmp_path / "here")


@pytest.mark.more
def test_parts_behind_the_first_and_a_large_file(
    url: str, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingot.converters.records.writers.PART_RECORDS", 10)
    monkeypatch.setattr(plan, "SHARD_BYTES", 3 * SHARD_BYTES)
    monkeypatch.setattr(plan, "_BLOCK", 1000)
    lines = b"".join(file.read_bytes() for file in sorted(raw.iterdir()))
    (raw / "large.jsonl").write_bytes(lines)
    run(raw, tmp_path / "here")
    run(raw, url)
    assert tree(url) == tree(tmp_path / "here")
    assert "records/part-00000_001.parquet" in tree(url)


@pytest.mark.more
def test_another_result_is_replaced_on_demand_only(url: str, raw: Path, tmp_path: Path) -> None:
    run(raw, url, records="jsonl")
    before = tree(url)
    with pytest.raises(OutputError, match=r'holds another result: options.records is "jsonl"'):
        run(raw, url)
    assert tree(url) == before
    run(raw, url, overwrite=True)
    run(raw, tmp_path / "here")
    assert tree(url) == tree(tmp_path / "here")


def test_a_damaged_result_is_replaced_on_demand_only(plain_url: str, raw: Path) -> None:
    run(raw, plain_url)
    before = tree(plain_url)
    object_store.delete(plain_url, ["records/part-00001.parquet"])
    with pytest.raises(OutputError, match="holds a damaged result"):
        run(raw, plain_url)
    run(raw, plain_url, overwrite=True)
    assert tree(plain_url) == before


@pytest.mark.parametrize("name", ["notes.txt", "records/part-00000.csv", "mapping.json"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_others_are_left_alone(
    plain_url: str, raw: Path, name: str, overwrite: bool
) -> None:
    object_store.put_bytes(b"mine", f"{plain_url}/{name}")
    with pytest.raises(OutputError, match=f"not part of the result, such as {name}"):
        run(raw, plain_url, overwrite=overwrite)
    assert tree(plain_url) == {name: b"mine"}


class StoppedError(Exception):
    """A process that ends here."""


def stop_after(monkeypatch: pytest.MonkeyPatch, shards: int) -> None:
    entered = []

    def put_shard(self: Any, name: str, *rest: Any) -> Any:
        if len(entered) == shards:
            raise StoppedError
        entered.append(name)
        return as_it_is(self, name, *rest)

    as_it_is = store_commit.ShardStore.put_shard
    monkeypatch.setattr(store_commit.ShardStore, "put_shard", put_shard)


@pytest.fixture
def unfinished(url: str, raw: Path) -> str:
    """A destination with three of five shards."""
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(StoppedError):
            run(raw, url)
    return url


@pytest.mark.more
def test_an_unfinished_result_goes_on(unfinished: str, raw: Path, tmp_path: Path) -> None:
    assert "manifest.json" not in tree(unfinished)
    result = run(raw, unfinished)
    assert (result.run["resumed"], result.run["shards_found"]) == (True, 3)
    run(raw, tmp_path / "here")
    assert tree(unfinished) == tree(tmp_path / "here")


@pytest.mark.more
def test_an_unfinished_result_is_no_source(unfinished: str, raw: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is an unfinished result of ingot: it has no manifest"):
        open_source(unfinished)
    above = open_source(unfinished.removesuffix("/out"))
    assert above.files == ()
    assert [(one.name, one.why) for one in above.left_out] == [("out", "a result of ingot")]


@pytest.mark.more
def test_an_unfinished_result_of_another_mapping_is_replaced_on_demand_only(
    unfinished: str, raw: Path, tmp_path: Path
) -> None:
    problem = r"another run is writing there since 20\d\d.*: another mapping .* if it is dead"
    with pytest.raises(OutputError, match=problem):
        run(raw, unfinished, OTHER)
    run(raw, unfinished, OTHER, overwrite=True)
    run(raw, tmp_path / "here", OTHER)
    assert tree(unfinished) == tree(tmp_path / "here")


@pytest.mark.more
def test_a_run_whose_claim_was_replaced_stops(
    url: str, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_it_is = store_commit.ShardStore.put_shard

    def overtaken(self: Any, name: str, *rest: Any) -> Any:
        if name == "000003":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(store_commit.ShardStore, "put_shard", as_it_is)
                run(raw, url, OTHER, overwrite=True)
        return as_it_is(self, name, *rest)

    monkeypatch.setattr(store_commit.ShardStore, "put_shard", overtaken)
    with pytest.raises(OutputError, match="holds another result: another mapping"):
        run(raw, url)
    run(raw, tmp_path / "here", OTHER)
    assert tree(url) == tree(tmp_path / "here")


@pytest.mark.more
def test_a_second_writer_of_the_same_result_finds_it_done(
    url: str, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_it_is = store_commit.ShardStore.put_shard

    def overtaken(self: Any, name: str, *rest: Any) -> Any:
        if name == "000003":
            monkeypatch.setattr(store_commit.ShardStore, "put_shard", as_it_is)
            assert not run(raw, url).already_done
        return as_it_is(self, name, *rest)

    monkeypatch.setattr(store_commit.ShardStore, "put_shard", overtaken)
    assert run(raw, url).already_done
    run(raw, tmp_path / "here")
    assert tree(url) == tree(tmp_path / "here")


@pytest.mark.more
@pytest.mark.parametrize("same", [True, False])
def test_a_result_that_came_before_the_claim_is_kept(
    url: str, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    as_it_is = store_commit.list_names

    def listed(place: str) -> Any:
        found = as_it_is(place)
        monkeypatch.setattr(store_commit, "list_names", as_it_is)
        run(raw, url, PT if same else OTHER)  # from its beginning to its end
        return found

    monkeypatch.setattr(store_commit, "list_names", listed)
    if same:
        assert run(raw, url).already_done
    else:
        with pytest.raises(OutputError, match="holds another result: another mapping"):
            run(raw, url)
    run(raw, tmp_path / "here", PT if same else OTHER)
    assert tree(url) == tree(tmp_path / "here")


@pytest.mark.more
@pytest.mark.parametrize("what", ["gone", "of another size", "of other bytes"])
def test_a_part_that_is_not_what_its_shard_says_is_never_committed(
    s3: Storage, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    url = f"s3://bucket/{tmp_path.name}/out"
    run(raw, tmp_path / "here")
    part = "records/part-00001.parquet"
    data = (tmp_path / "here" / part).read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(StoppedError):
            run(raw, url)
    if what == "gone":
        object_store.delete(url, [part])
    else:
        other = data[:-1] if what == "of another size" else bytes(reversed(data))
        object_store.put_bytes(other, f"{url}/{part}")
    with pytest.raises(OutputError, match=f"{part} is not what was written there"):
        run(raw, url)
    assert "manifest.json" not in tree(url)
    assert run(raw, url).run["shards_found"] == 4
    assert tree(url) == tree(tmp_path / "here")


@pytest.mark.more
def test_strange_parts_go_and_strange_files_stop_the_commit(
    unfinished: str, raw: Path, tmp_path: Path
) -> None:
    object_store.put_bytes(b"of a dead run", f"{unfinished}/records/part-00077.parquet")
    run(raw, unfinished)
    run(raw, tmp_path / "here")
    assert tree(unfinished) == tree(tmp_path / "here")


def test_nothing_stays_of_rows_that_were_all_rejected(plain_url: str, raw: Path) -> None:
    with pytest.raises(ConversionError, match="every row was rejected"):
        run(raw, plain_url, {"version": 2, "text": "nowhere"})
    assert tree(plain_url) == {}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tokenizer": "t.json"}, "tokens are not written to an object store .*tokens build"),
        ({"records": "delta"}, "Delta tables are not written to an object store"),
    ],
)
def test_what_a_store_cannot_have(raw: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(OutputError, match=problem):
        run(raw, "memory://x/out", **options)


def test_a_result_does_not_replace_its_own_source(plain_url: str, raw: Path) -> None:
    for file in raw.iterdir():
        object_store.put_file(file, f"{plain_url}/records/{file.name}")
    with pytest.raises(OutputError, match="holds a file of the source"):
        convert(
            open_source(f"{plain_url}/records"),
            bind(PT, ()),
            plain_url,
            ConvertOptions(overwrite=True),
        )


def check_whole(storage: Storage, prefix: str) -> bool:
    """Whether there is a manifest; then all of its files are what it says."""
    names = storage.names("bucket", prefix)
    if f"{prefix}/manifest.json" not in names:
        return False
    manifest = json.loads(storage.get(f"/bucket/{prefix}/manifest.json"))
    for one in manifest["files"]:
        data = storage.get(f"/bucket/{prefix}/{one['path']}")
        assert (len(data), hashlib.sha256(data).hexdigest()) == (one["bytes"], one["sha256"])
    own = {f"{prefix}/{one['path']}" for one in manifest["files"]}
    parts = {name for name in names if "/records/" in name or "/rejected/" in name}
    assert parts <= own
    return True


@pytest.mark.more
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.more)])
def test_faults_give_the_right_result_or_an_error(
    s3: Storage, raw: Path, tmp_path: Path, seed: int
) -> None:
    run_with_faults(s3, raw, tmp_path, seed)


@pytest.mark.long
def test_many_faults(s3: Storage, raw: Path, tmp_path: Path) -> None:
    found = [run_with_faults(s3, raw, tmp_path, seed) for seed in range(100, 130)]
    errors, faults = map(sum, zip(*found, strict=True))
    assert errors > 10
    sys.stderr.write(f"{len(found)} results: {faults} faults, {errors} errors\n")


def run_with_faults(s3: Storage, raw: Path, tmp_path: Path, seed: int) -> tuple[int, int]:
    """Run until it is done; returns errors and faults."""
    prefix, here = f"{tmp_path.name}/{seed}", tmp_path / "here"
    run(raw, here)
    errors, faults = 0, 0
    for turn in range(20):
        # Every other time nothing is repeated.
        os.environ["INGOT_STORAGE_RETRIES"] = "3" if turn % 2 else "0"
        share = 0.15 if turn % 2 else 0.06
        tally = s3.proxy.begin(drawn(seed * 100 + turn, share, FAULTS))
        try:
            run(raw, f"s3://bucket/{prefix}", workers=1)
            break
        except OutputError:
            errors += 1
        finally:
            faults += tally.faults.total()
            s3.proxy.begin()
            check_whole(s3, prefix)
    os.environ["INGOT_STORAGE_RETRIES"] = "3"
    assert check_whole(s3, prefix)
    run(raw, f"s3://bucket/{prefix}")  # removes what a lost answer may have left
    assert tree(f"s3://bucket/{prefix}") == tree(here)
    return errors, faults


def start(raw: Path, url: str, workers: int, mapping: dict[str, Any]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RUN, str(raw), url, str(workers), json.dumps(mapping)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def kill_once(s3: Storage, raw: Path, url: str, rng: random.Random) -> tuple[bool, int]:
    """Kill a run at a random request; returns whether it had committed, and its shards."""
    left = [rng.randrange(1, 75)]
    process = start(raw, url, rng.choice([1, 2]), PT)

    def strike(asked: Asked) -> Fault | None:
        left[0] -= 1
        if left[0] == 0:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return rng.choice([None, Fault(cut=-1)])  # the request arrives or does not
        return None

    s3.proxy.begin(strike)
    process.communicate()
    time.sleep(0.2)  # the workers of a killed process end, too
    s3.proxy.begin()
    prefix = url.removeprefix("s3://bucket/")
    shards = [name for name in s3.names("bucket", prefix) if "/.ingot-work/" in name]
    return check_whole(s3, prefix), sum(not name.endswith("claim.json") for name in shards)


def kill_and_go_on(s3: Storage, raw: Path, tmp_path: Path, kills: int, seed: int) -> str:
    run(raw, tmp_path / "here")
    rng = random.Random(seed)
    committed = resumed = found = 0
    for number in range(kills):
        url = f"s3://bucket/{tmp_path.name}/{seed}-{number}"
        done, shards = kill_once(s3, raw, url, rng)
        again = run(raw, url)
        assert tree(url) == tree(tmp_path / "here")
        assert again.already_done is done
        committed += done
        if not done:
            assert again.run["shards_found"] >= shards
            resumed += shards > 0
            found += shards
    return f"{kills} kills: {committed} after the commit, {resumed} resumed with {found} shards"


@pytest.mark.more
def test_killed_runs_go_on(s3: Storage, raw: Path, tmp_path: Path) -> None:
    kill_and_go_on(s3, raw, tmp_path, 3, 1)


@pytest.mark.long
def test_many_killed_runs_go_on(s3: Storage, raw: Path, tmp_path: Path) -> None:
    sys.stderr.write(kill_and_go_on(s3, raw, tmp_path, 50, 2) + "\n")


@pytest.mark.more
@pytest.mark.parametrize("same", [False, True], ids=["two mappings", "one mapping"])
def test_two_writers_at_once_make_one_result(
    s3: Storage, raw: Path, tmp_path: Path, same: bool
) -> None:
    url = f"s3://bucket/{tmp_path.name}/out"
    barrier = threading.Barrier(2)
    as_it_is: Callable[..., Any] = store_commit.list_names

    def together(place: str) -> Any:
        found = as_it_is(place)
        if not found:  # both have seen an empty destination
            barrier.wait(10)
        return found

    def attempt(mapping: dict[str, Any]) -> str:
        try:
            run(raw, url, mapping)
        except OutputError as error:
            return str(error)
        return ""

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as threads:
        patch.setattr(store_commit, "list_names", together)
        said = list(threads.map(attempt, [PT, PT if same else OTHER]))
    won = PT if same or not said[0] else OTHER
    run(raw, tmp_path / "here", won)
    assert tree(url) == tree(tmp_path / "here")
    if same:
        assert said == ["", ""]
    else:
        assert sorted(map(bool, said)) == [False, True]
        assert "another run is writing there since" in max(said)
