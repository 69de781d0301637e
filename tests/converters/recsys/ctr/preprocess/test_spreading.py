"""Builds in pieces give the bytes of a build in one process, whoever does which piece."""

import gzip
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.cli.app import app
from ingot.converters.errors import ConversionError, OutputError, PartDone
from ingot.converters.output import sharding
from ingot.converters.output.identity import CommittedResult
from ingot.converters.output.sharding import JobShard, Spread
from ingot.converters.progress import Progress
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap, Table, load
from ingot.converters.recsys.ctr.preprocess import job, row_files
from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp, Inputs, PlainTable

GENERATOR = str(Path(__file__).parents[5] / "benchmarks" / "ctr" / "generate.py")
MERGE = Spread(shard=JobShard())
FEATURES = (
    Feature(name="f0_1", src=0, field="1", encoding="vocab", vocab_num_tokens=4, use_value=True),
    Feature(
        name="f0_2",
        src=0,
        field="2",
        encoding="hybrid",
        vocab_num_tokens=3,
        hash_bucket=50,
        max_len=2,
        use_value=True,
    ),
    Feature(
        name="f1_3", src=1, field="3", encoding="hash", hash_bucket=1000, max_len=3, use_value=True
    ),
    Feature(name="f1_4", src=1, field="4", encoding="vocab", vocab_num_tokens=5),
)
MAP = FeatureMap(features=FEATURES, train_ratio=0.7, funnel="drop")


def tokens(*found: tuple[int, object, object]) -> str:
    return "\x01".join(f"{field}\x02{text}\x03{value}" for field, text, value in found)


def skeleton() -> bytes:
    lines = []
    for n in range(300):
        held = [(1, n % 7, n / 7), *((2, (n * step) % 11, step / 3) for step in range(n % 5))]
        labels = "7,0" if n % 41 == 3 else f"{n % 2},{n % 6 // 5 or n % 37 == 0:d}"
        lines.append(f"s{n % 290},{labels},e{n * n % 31},{len(held)},{tokens(*held)}\n")
    return "".join(lines).encode() + b"cut\n"


def common() -> bytes:
    lines = []
    for n in range(45):
        held = [(3, n * step % 17, step / 9) for step in range(n % 6)]
        name = "" if n == 20 else f"e{n % 28}"
        lines.append(f"{name},{len(held)},{tokens((4, n % 6, 1), *held)}\n")
    return "".join(lines).encode()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pieces, several files of a split."""
    monkeypatch.setattr(job, "PIECE_BYTES", 4000)
    monkeypatch.setattr(row_files, "GROUP_ROWS", 16)
    monkeypatch.setattr(row_files, "GROUPS_PER_FILE", 3)


@pytest.fixture
def aliccp(tmp_path: Path) -> Aliccp:
    (tmp_path / "skeleton").write_bytes(skeleton())
    (tmp_path / "common").write_bytes(common())
    return Aliccp(skeleton=str(tmp_path / "skeleton"), common=str(tmp_path / "common"))


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "run.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def build_whole(*given: Any, **options: Any) -> CommittedResult:
    """Build in this process, each file of the input as one piece."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job, "PIECE_BYTES", 1 << 40)
        return job.build(*given, **options)


def do_part(*given: Any, **options: Any) -> PartDone:
    with pytest.raises(PartDone) as ended:
        job.build(*given, **options)
    return ended.value


def do_parts(inputs: Inputs, featuremap: FeatureMap, out: Path, count: int, **options: Any) -> None:
    """Run every part until none waits, the last ones first."""
    for _ in range(2):
        for number in reversed(range(count)):
            spread = Spread(shard=JobShard(number, count))
            done = do_part(inputs, featuremap, out, spread=spread, **options)
    assert done.phase is None


@pytest.mark.more
@pytest.mark.parametrize("count", [1, 3, 8])
def test_parts_have_the_bytes_of_one_process(aliccp: Aliccp, tmp_path: Path, count: int) -> None:
    whole = build_whole(aliccp, MAP, tmp_path / "whole")
    do_parts(aliccp, MAP, tmp_path / "parts", count)
    merged = job.build(aliccp, MAP, tmp_path / "parts", spread=MERGE)
    assert isinstance(merged, CommittedResult)
    assert tree(merged.out) == tree(whole.out)
    assert merged.stats == whole.stats
    assert [*merged.stats] == [*whole.stats]
    assert whole.stats["samples"] == {"repeated": 8}
    assert whole.stats["entities"]["repeated"] == 17
    assert whole.stats["entities"]["unknown"] > 0
    assert whole.stats["rejects"] == {"columns": 1, "label": 8}
    assert whole.stats["common_rejects"] == {"entity_id": 1}
    assert whole.stats["rows"]["dropped"] > 0
    sizes = [pq.read_metadata(one).num_rows for one in sorted((merged.out / "train").iterdir())]
    assert len(sizes) > 2
    assert {*sizes[:-1]} == {3 * 16}
    assert len(spread_pieces(aliccp)) > 5
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def spread_pieces(inputs: Inputs) -> list[object]:
    return list(inputs.pieces(MAP, job.PIECE_BYTES))


@pytest.mark.more
@pytest.mark.parametrize("size", [7, 64, 10_000_000])
def test_lines_are_in_one_piece_each(aliccp: Aliccp, tmp_path: Path, size: int) -> None:
    lines = [b"e%d,1,4\x02%s\x031" % (n, b"x" * (n * 7 % 90)) for n in range(6)]
    Path(aliccp.common).write_bytes(b"\n".join(lines))
    Path(aliccp.skeleton).write_bytes(skeleton()[:300])
    whole = build_whole(aliccp, MAP, tmp_path / "whole")
    job.PIECE_BYTES = size  # type: ignore[misc]  # the fixture puts it back
    spread = Spread(runner="processes", workers=1)
    seen: list[Progress] = []
    made = job.build(aliccp, MAP, tmp_path / "pieces", spread=spread, progress=seen.append)
    assert isinstance(made, CommittedResult)
    assert tree(made.out) == tree(whole.out)
    rows = whole.stats["rows"]
    last = {one.stage: one.rows for one in seen}
    assert last == {"scan": rows["read"] + len(lines), "write": rows["train"] + rows["valid"]}


@pytest.mark.more
def test_compressed_files_and_vocabularies_of_another_build(aliccp: Aliccp, tmp_path: Path) -> None:
    first = job.build(aliccp, MAP, tmp_path / "first")
    packed = tmp_path / "common.gz"
    packed.write_bytes(gzip.compress(common()[:1500], mtime=0))
    other = replace(aliccp, common=str(packed))
    whole = build_whole(other, MAP, tmp_path / "whole", vocab=first.out)
    do_parts(other, MAP, tmp_path / "parts", 2, vocab=first.out)
    job.build(other, MAP, tmp_path / "parts", spread=MERGE, vocab=first.out)
    assert tree(tmp_path / "parts") == tree(whole.out)


@pytest.mark.more
def test_a_table_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    for number in range(5):
        rows = [
            {
                "user": None if n == 7 else f"u{n % 9}",
                "click": n % 2,
                "item": f"i{n * number % 13}",
                "id": f"s{n}" if n % 3 else None,
            }
            for n in range(40 + number)
        ]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "table" / f"{number}.parquet")
    table = Table(entity_id="user", y_ctr="click", y_cvr=None, sample_id="id")
    feature = replace(FEATURES[0], column="item", field="item", use_value=False)
    featuremap = FeatureMap(features=(feature,), table=table, train_ratio=0.6)
    inputs = PlainTable(table=str(tmp_path / "table"))
    job.PIECE_BYTES = 2500  # type: ignore[misc]  # the fixture puts it back
    assert len(list(inputs.pieces(featuremap, job.PIECE_BYTES))) > 2
    whole = build_whole(inputs, featuremap, tmp_path / "whole")
    assert whole.stats["rejects"] == {"entity_id": 5}
    assert whole.stats["samples"]["repeated"] > 100
    do_parts(inputs, featuremap, tmp_path / "parts", 3)
    job.build(inputs, featuremap, tmp_path / "parts", spread=MERGE)
    assert tree(tmp_path / "parts") == tree(whole.out)


@pytest.mark.more
def test_a_merge_refuses_while_pieces_are_missing(aliccp: Aliccp, tmp_path: Path) -> None:
    out, last = tmp_path / "parts", Spread(shard=JobShard(1, 2))
    done = do_part(aliccp, MAP, out, spread=last)
    assert done.phase == "1/2"
    assert 0 < done.pieces < done.whole
    with pytest.raises(OutputError, match="pieces are not done"):
        job.build(aliccp, MAP, out, spread=MERGE)
    done = do_part(aliccp, MAP, out, spread=Spread(shard=JobShard(0, 2)))
    assert done.phase is None
    with pytest.raises(OutputError, match="pieces are not done"):
        job.build(aliccp, MAP, out, spread=MERGE)
    assert not out.exists()
    do_part(aliccp, MAP, out, spread=last)
    job.build(aliccp, MAP, out, spread=MERGE)
    assert tree(out) == tree(build_whole(aliccp, MAP, tmp_path / "whole").out)


@pytest.mark.more
def test_a_merge_that_was_killed(
    aliccp: Aliccp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    do_parts(aliccp, MAP, tmp_path / "parts", 2)
    rename, left = Path.rename, iter(range(4))

    def fail_later(self: Path, target: Path) -> Path:
        if "parts.ingot-stage" in str(target) and next(left, None) is None:
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail_later)
        with pytest.raises(KeyboardInterrupt):
            job.build(aliccp, MAP, tmp_path / "parts", spread=MERGE)
    job.build(aliccp, MAP, tmp_path / "parts", spread=MERGE)
    assert tree(tmp_path / "parts") == tree(build_whole(aliccp, MAP, tmp_path / "whole").out)


def test_one_process_goes_on_with_the_pieces_of_parts(aliccp: Aliccp, tmp_path: Path) -> None:
    out, seen = tmp_path / "out", list[Progress]()
    do_part(aliccp, MAP, out, spread=Spread(shard=JobShard(0, 2)))
    with pytest.raises(KeyboardInterrupt):
        job.build(aliccp, MAP, out, progress=interrupt_writing)
    made = job.build(aliccp, MAP, out, progress=seen.append)
    assert {one.stage for one in seen if one.rows} == {"write"}
    assert tree(made.out) == tree(build_whole(aliccp, MAP, tmp_path / "whole").out)


def interrupt_writing(progress: Progress) -> None:
    if progress.stage == "write":
        raise KeyboardInterrupt


def test_a_file_that_is_another(aliccp: Aliccp, tmp_path: Path) -> None:
    Path(aliccp.common).write_bytes(b"no line\n" * 2000)
    job.PIECE_BYTES = 1 << 20  # type: ignore[misc]  # the fixture puts it back
    with pytest.raises(ConversionError, match="none of the first 2,000 rows"):
        job.build(aliccp, MAP, tmp_path / "out", spread=Spread(shard=JobShard(0, 1)))


@pytest.mark.more
def test_a_pool_of_processes(
    aliccp: Aliccp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the processes write groups of the usual size
    monkeypatch.setattr(job, "PIECE_BYTES", 8000)
    whole = build_whole(aliccp, MAP, tmp_path / "whole")
    spread = Spread(runner="processes", workers=2)
    made = job.build(aliccp, MAP, tmp_path / "pool", spread=spread)
    assert isinstance(made, CommittedResult)
    assert tree(made.out) == tree(whole.out)


@pytest.mark.more
def test_the_commands(
    aliccp: Aliccp,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = build_whole(aliccp, MAP, tmp_path / "whole")
    (tmp_path / "map.yaml").write_bytes((whole.out / "featuremap.yaml").read_bytes())
    out = str(tmp_path / "parts")
    raw = ["--skeleton", aliccp.skeleton, "--common", aliccp.common]
    command = ["ctr", "build", *raw, "--featuremap", str(tmp_path / "map.yaml"), "--out", out]

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sharding, "_COMMAND", [*arguments])
        app(list(arguments), standalone_mode=False)
        return "".join(capsys.readouterr())

    assert "of 6 pieces of phase 1/2" in run(*command, "--shard", "0/2")
    assert f"ingot merge {out}" in run(*command, "--shard", "1/2")
    run(*command, "--shard", "0/2")
    run("merge", out)
    assert tree(tmp_path / "parts") == tree(whole.out)
    assert "already" in run(*command, "--shard", "0/2")


PART = """
import sys
from pathlib import Path
from ingot.converters.errors import PartDone
from ingot.converters.output.sharding import parse_shard
from ingot.converters.recsys.ctr.preprocess import job, row_files
from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp
from ingot.converters.recsys.ctr.featuremap import load
from ingot.converters.errors import PartDone
from ingot.converters.output.sharding import Spread

job.PIECE_BYTES, row_files.GROUPS_PER_FILE = 1 << 20, 1
skeleton, common, out, shard = sys.argv[1:]
inputs = Aliccp(skeleton=skeleton, common=common)
try:
    job.build(inputs, load("aliccp"), Path(out), spread=Spread(shard=parse_shard(shard)))
    print("merged")
except PartDone as done:
    print(done.phase is not None)
"""


@pytest.mark.long
def test_parts_that_are_killed_twenty_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(
        [sys.executable, GENERATOR, str(tmp_path / "raw"), "--scale", "0.004"], check=True
    )
    places = [
        str(tmp_path / "raw" / f"{name}_train.csv")
        for name in ("sample_skeleton", "common_features")
    ]

    def start(shard: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", PART, *places, str(tmp_path / "parts"), shard]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def drafts(phase: str) -> set[str]:
        """Drafts of pieces, also of those that were killed."""
        work = next(iter(tmp_path.glob(".parts.ingot-stage-*/work")), tmp_path)
        return {path.name for path in work.glob(".fit-*" if phase == "fit" else f"{phase}/.*")}

    def kill_in(phase: str) -> bool:
        """Start a part and kill it in the middle of a piece of a phase, if it comes there."""
        before, process = drafts(phase), start(chance.choice(["0/2", "1/2"]))
        while process.poll() is None and drafts(phase) <= before:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.2))
        process.kill()
        process.communicate()
        return process.returncode == -9

    chance, kills = random.Random(7), Counter[str]()
    for phase, wanted in (("scan", 8), ("fit", 4), ("write", 8)):
        while kills[phase] < wanted:
            kills[phase] += kill_in(phase)
    assert kills == {"scan": 8, "fit": 4, "write": 8}
    for shard in ("0/2", "1/2"):
        assert start(shard).communicate()[0] == "False\n"
    assert start("merge").communicate()[0] == "merged\n"
    monkeypatch.setattr(row_files, "GROUPS_PER_FILE", 1)
    monkeypatch.setattr(row_files, "GROUP_ROWS", 16_384)
    inputs = Aliccp(skeleton=places[0], common=places[1])
    whole = build_whole(inputs, load("aliccp"), tmp_path / "whole")
    assert tree(tmp_path / "parts") == tree(whole.out)


def test_values_whose_sum_no_float32_holds(tmp_path: Path) -> None:
    (tmp_path / "skeleton").write_bytes(b"1,0,0,e,0,\n2,1,0,e,0,\n")
    held = tokens((4, "a", 3e38), (4, "b", 3e38), (4, "c", 1.0))
    (tmp_path / "common").write_bytes(f"e,3,{held}\n".encode())
    inputs = Aliccp(skeleton=str(tmp_path / "skeleton"), common=str(tmp_path / "common"))
    feature = Feature(
        name="f1_4", src=1, field="4", encoding="hash", hash_bucket=8, max_len=2, use_value=True
    )
    featuremap = FeatureMap(features=(feature,))
    whole = build_whole(inputs, featuremap, tmp_path / "whole")
    do_parts(inputs, featuremap, tmp_path / "parts", 2)
    job.build(inputs, featuremap, tmp_path / "parts", spread=MERGE)
    assert tree(tmp_path / "parts") == tree(Path(whole.out))
    assert whole.stats["splits"]["train"]["features"]["f1_4"]["value_kept"] == 1.0
