"""Builds as a whole: what is made again, what is refused, what is told, what is left behind."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard

from ingot.converters.errors import ConversionError, FeaturemapError, OutputError, SourceError
from ingot.converters.output.identity import CommittedResult
from ingot.converters.progress import Progress
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap, Table
from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp, PlainTable
from ingot.converters.recsys.ctr.preprocess.job import build
from tests.converters.recsys.ctr.reference import token_hash

FEATURES = (
    Feature(name="f0_1", src=0, field="1", encoding="vocab", vocab_num_tokens=4, use_value=True),
    Feature(name="f0_2", src=0, field="2", encoding="hybrid", vocab_num_tokens=3, hash_bucket=50),
    Feature(name="f1_3", src=1, field="3", encoding="hash", hash_bucket=1000, max_len=3),
)
MAP = FeatureMap(features=FEATURES, train_ratio=0.7)


def token(field: int, text: object, value: object = 1) -> bytes:
    return f"{field}\x02{text}\x03{value}".encode()


def row(number: int, entity: object, *tokens: bytes, labels: str = "0,0") -> bytes:
    start = f"s{number},{labels},{entity},{len(tokens)},".encode()
    return start + b"\x01".join(tokens) + b"\n"


def common_line(entity: object, *tokens: bytes) -> bytes:
    return f"{entity},{len(tokens)},".encode() + b"\x01".join(tokens) + b"\n"


def skeleton_of(rows: int, entities: int = 20) -> bytes:
    return b"".join(
        row(
            n,
            n % entities,
            token(1, n % 7, n % 3),
            token(2, n % 11),
            labels=f"{n % 2},{n % 6 // 5}",
        )
        for n in range(rows)
    )


def common_of(entities: int = 20) -> bytes:
    return b"".join(
        common_line(n, *(token(3, n * step % 17, step) for step in range(n % 5)))
        for n in range(entities)
    )


class Place:
    """A folder with raw files, and builds beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.skeleton, self.common = folder / "skeleton.csv", folder / "common.csv"
        self.skeleton.write_bytes(skeleton_of(60))
        self.common.write_bytes(common_of())

    @property
    def inputs(self) -> Aliccp:
        return Aliccp(skeleton=str(self.skeleton), common=str(self.common))

    def build(
        self, featuremap: FeatureMap = MAP, out: str = "out", **options: Any
    ) -> CommittedResult:
        return build(self.inputs, featuremap, self.folder / out, **options)

    def hidden(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name.startswith("."))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def tree(folder: Path, *but: str) -> dict[str, bytes]:
    """Every file but run.json."""
    files = (path for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return {name: content for name, content in found.items() if name not in ("run.json", *but)}


def rows_of(built: CommittedResult, split: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(built.out / split).to_pylist()
    return rows


# The same again


@pytest.mark.more
def test_same_bytes_twice(tmp_path: Path) -> None:
    trees = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        trees.append(tree(Place(tmp_path / name).build().out))
    assert trees[0] == trees[1]
    assert sorted(trees[0]) == [
        *("featuremap.yaml", "manifest.json", "stats.json", "train/part-00000.parquet"),
        *("valid/part-00000.parquet", "vocab/f0_1.parquet", "vocab/f0_2.parquet"),
        "vocab/f1_3.parquet",
    ]


def test_manifest_lists_inputs_and_files(place: Place) -> None:
    manifest = place.build().manifest
    assert [(one["role"], one["name"]) for one in manifest["inputs"]] == [
        ("skeleton", "skeleton.csv"),
        ("common", "common.csv"),
    ]
    assert manifest["inputs"][0]["bytes"] == len(skeleton_of(60))
    listed = sorted(one["path"] for one in manifest["files"])
    assert listed == sorted(tree(place.out, "manifest.json"))
    assert manifest == json.loads((place.out / "manifest.json").read_bytes())
    assert "run.json" not in listed
    assert str(place.folder) not in json.dumps(manifest)


def test_nothing_is_done_twice(place: Place) -> None:
    first = place.build()
    before = {path: path.stat().st_mtime_ns for path in place.out.rglob("*")}
    again = place.build()
    assert not first.already_done
    assert again.already_done
    assert again.stats == first.stats == json.loads((place.out / "stats.json").read_bytes())
    assert again.manifest == first.manifest
    assert "nothing to do" in again.notes[-1]
    assert {path: path.stat().st_mtime_ns for path in place.out.rglob("*")} == before
    os.utime(place.skeleton, (1, 1))
    assert place.build().already_done, "the content counts, not the time"
    assert place.hidden() == []


def test_a_damaged_result_is_told(place: Place) -> None:
    place.build()
    (place.out / "train/part-00000.parquet").write_bytes(b"")
    with pytest.raises(OutputError, match="holds a damaged result"):
        place.build()
    assert place.build(overwrite=True).out == place.out
    assert len(pq.read_table(place.out / "train")) > 0


OTHERS: dict[str, tuple[Callable[[FeatureMap], FeatureMap], str]] = {
    "features": (
        lambda one: replace(one, features=one.features[:2]),
        r"another featuremap \(other features\)",
    ),
    "fraction": (
        lambda one: replace(one, train_ratio=0.71),
        r"another featuremap \(train_ratio is 0.7 \(requested: 0.71\)\)",
    ),
    "seed": (
        lambda one: replace(one, split_seed=1),
        r"another featuremap \(split_seed is 20260121 \(requested: 1\)\)",
    ),
    "mask": (
        lambda one: replace(one, click_mask="exposed"),
        r"another profile of the contract; .*click_mask is \"clicked\" \(requested: \"exposed\"\)",
    ),
    "tails": (
        lambda one: replace(one, tail_ids="contract"),
        r"another profile of the contract; .*tail_ids is \"disjoint\" \(requested: \"contract\"\)",
    ),
    "funnel": (
        lambda one: replace(one, funnel="drop"),
        r"another profile of the contract; .*funnel is \"keep\" \(requested: \"drop\"\)",
    ),
}


@pytest.mark.more
@pytest.mark.parametrize("name", OTHERS)
def test_another_build_is_refused_and_named(place: Place, name: str) -> None:
    change, said = OTHERS[name]
    place.build()
    before = tree(place.out)
    with pytest.raises(OutputError, match=f"holds another result: {said}") as raised:
        place.build(change(MAP))
    assert "`overwrite`" in str(raised.value)
    assert tree(place.out) == before
    place.build(change(MAP), overwrite=True)
    place.build(change(MAP), "fresh")
    assert tree(place.out) == tree(place.folder / "fresh") != before
    assert place.hidden() == []


@pytest.mark.parametrize("role", ["skeleton", "common"])
def test_other_files_are_refused_and_named(place: Place, role: str) -> None:
    place.build()
    changed: Path = getattr(place, role)
    changed.write_bytes(changed.read_bytes().replace(b"\x031", b"\x032"))
    with pytest.raises(OutputError, match="holds another result: other input files"):
        place.build()


def test_a_foreign_folder_stays(place: Place) -> None:
    place.out.mkdir()
    (place.out / "mine").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="files that ingot did not write"):
            place.build(overwrite=overwrite)
    assert tree(place.out) == {"mine": b"mine"}


# Saved vocabularies


def test_vocabularies_on_new_data(place: Place) -> None:
    old = place.build()
    saved = {one.name: pq.read_table(old.out / f"vocab/{one.name}.parquet") for one in FEATURES}
    place.skeleton.write_bytes(
        row(0, "new", token(1, "unseen", 5), token(2, "unseen"))
        + row(1, 3, token(1, "1"), token(2, "5"))
        + row(2, "new", token(1, "1", 2), token(1, "unseen", 2))
    )
    place.common.write_bytes(common_line("new", token(3, "unseen")))
    new = place.build(replace(MAP, train_ratio=0.0), "new", vocab=old.out)
    for name, table in saved.items():
        assert pq.read_table(new.out / f"vocab/{name}.parquet").equals(table)
    ids = {
        name: dict(zip(*(table[column].to_pylist() for column in ("token", "id")), strict=True))
        for name, table in saved.items()
    }
    first, second, third = rows_of(new, "valid")
    assert (first["f0_1_idx"], first["f0_1_val"]) == (2, 5.0)
    assert first["f0_2_idx"] == 3 + 3 + token_hash(17, (0, "2"), "unseen", 50)
    assert first["f1_3_idx"] == [2 + token_hash(17, (1, "3"), "unseen", 1000)]
    assert second["f0_1_idx"] == ids["f0_1"]["1"]
    assert second["f0_2_idx"] == ids["f0_2"]["5"]
    assert second["f1_3_idx"] == [1]
    assert third["f0_1_idx"] == ids["f0_1"]["1"], "of equal values the more frequent token"
    assert new.stats["splits"]["valid"]["features"]["f0_1"]["oov"] == 1
    assert new.manifest["vocab_sha256"] != old.manifest["vocab_sha256"]


def test_vocabularies_of_the_same_data_give_the_same_rows(place: Place) -> None:
    fitted, again = place.build(), place.build(out="again", vocab=place.out)
    for split in ("train", "valid"):
        assert rows_of(fitted, split) == rows_of(again, split)
    with pytest.raises(OutputError, match="holds another result: other vocabularies"):
        place.build(vocab=place.out / "vocab")


def test_vocabularies_of_another_featuremap(place: Place) -> None:
    place.build()
    other = replace(MAP, features=(replace(FEATURES[0], vocab_num_tokens=5), *FEATURES[1:]))
    with pytest.raises(SourceError, match="has id 2, this featuremap gives 7"):
        place.build(other, "other", vocab=place.out)
    more = replace(MAP, features=(*FEATURES, replace(FEATURES[0], name="f0_9")))
    with pytest.raises(SourceError, match=r"f0_9\.parquet: cannot be read as a vocabulary"):
        place.build(more, "other", vocab=place.out)
    assert not (place.folder / "other").exists()


# Rows and splits


def test_all_train(place: Place) -> None:
    built = place.build(replace(MAP, train_ratio=1.0))
    assert built.stats["rows"] == {"read": 60, "train": 60, "valid": 0, "rejected": 0, "dropped": 0}
    assert rows_of(built, "valid") == []
    assert [path.name for path in (built.out / "valid").iterdir()] == ["part-00000.parquet"]
    empty = built.stats["splits"]["valid"]
    assert empty["rows"] == 0
    assert empty["features"]["f1_3"]["lengths"] is None


def test_no_train_rows(place: Place) -> None:
    with pytest.raises(ConversionError, match="no row is in the train split") as raised:
        place.build(replace(MAP, train_ratio=0.0))
    assert "`train_fraction`" in str(raised.value)
    assert not place.out.exists()
    assert place.hidden() == []


def test_counts_add_up(place: Place) -> None:
    odd = b"short\n" + row(0, "", token(1, 1)) + row(1, 5, labels="0,1") + row(2, 5, labels="3,1")
    place.skeleton.write_bytes(skeleton_of(60) + odd + b"s1,0,0,\xff,0,\n")
    place.common.write_bytes(common_of() + b"no\n" + b"\xff,0,\n")
    built = place.build(replace(MAP, funnel="drop"))
    counts = built.stats["rows"]
    kept = [len(rows_of(built, split)) for split in ("train", "valid")]
    assert kept == [counts["train"], counts["valid"]]
    assert counts["read"] == 65 == sum(kept) + counts["rejected"] + counts["dropped"]
    assert built.stats["rejects"] == {"columns": 1, "entity_id": 2, "label": 1}
    assert built.stats["common_rejects"] == {"columns": 1, "entity_id": 1}
    rejects = [json.loads(one) for one in (built.out / "rejects.jsonl").read_text().splitlines()]
    assert [(one["file"], one["row"], one["reason"], one["found"]) for one in rejects] == [
        ("common.csv", 20, "columns", "no"),
        ("common.csv", 21, "entity_id", "\\xff"),
        ("skeleton.csv", 60, "columns", "short"),
        ("skeleton.csv", 61, "entity_id", ""),
        ("skeleton.csv", 63, "label", "3"),
        ("skeleton.csv", 64, "entity_id", "\\xff"),
    ]


def test_repeated_samples_are_counted(place: Place) -> None:
    place.skeleton.write_bytes(skeleton_of(60) + skeleton_of(5))
    built = place.build()
    assert built.stats["samples"]["repeated"] == 5
    assert built.stats["rows"]["read"] == 65


def test_the_last_common_line_counts(place: Place) -> None:
    lines = [
        common_line(n, token(3, "early")) + common_line(n, token(3, "late")) for n in range(20)
    ]
    place.common.write_bytes(b"".join(lines))
    built = place.build()
    assert built.stats["entities"]["repeated"] == 20
    assert pq.read_table(built.out / "vocab/f1_3.parquet")["token"].to_pylist() == ["late"]


@pytest.mark.more
def test_many_row_groups_and_blocks(tmp_path: Path) -> None:
    """More rows than a row group holds, read in blocks of any size."""
    place = Place(tmp_path)
    place.skeleton.write_bytes(skeleton_of(40_000, 97))
    place.common.write_bytes(common_of(97))
    trees = []
    for size in (8 << 20, 100_000):
        small = replace(place.inputs, block_bytes=size)
        built = build(small, MAP, tmp_path / str(size))
        trees.append(tree(built.out))
    assert trees[0] == trees[1]
    metadata = pq.read_metadata(built.out / "train/part-00000.parquet")
    assert metadata.row_group(0).num_rows == 16_384
    ids = pq.read_table(built.out / "train", columns=["row_id"])["row_id"].to_pylist()
    assert all(one < other for one, other in pairwise(ids))


# Inputs


@pytest.mark.parametrize("content", [b"", b"short\n", b"x,2,0,e,0,\n"])
def test_no_row(place: Place, content: bytes) -> None:
    place.skeleton.write_bytes(content)
    with pytest.raises(ConversionError, match="no row") as raised:
        place.build()
    if content:
        assert "skeleton.csv, row 0" in str(raised.value)
    assert place.hidden() == []


def test_another_file_is_told_before_it_is_read_to_its_end(place: Place) -> None:
    place.skeleton.write_bytes(common_of(5_000) + skeleton_of(60))
    inputs = replace(place.inputs, block_bytes=2_000)
    seen: list[Progress] = []
    with pytest.raises(ConversionError, match=r"none of the first \d,\d{3} rows") as raised:
        build(inputs, MAP, place.out, progress=seen.append)
    assert "skeleton.csv, row 0: columns" in str(raised.value)
    assert max(one.rows for one in seen) < 1_000
    assert place.hidden() == []


def test_a_good_row_among_the_first_lets_the_file_be_read(place: Place) -> None:
    place.skeleton.write_bytes(skeleton_of(60) + common_of(5_000))
    built = build(replace(place.inputs, block_bytes=1_000), MAP, place.out)
    assert built.stats["rows"]["rejected"] == 5_000


def test_no_common_features(place: Place) -> None:
    place.common.write_bytes(b"")
    built = place.build()
    assert all(one["f1_3_idx"] == [1] for one in rows_of(built, "train"))
    assert built.stats["entities"]["unknown"] == 20


@pytest.mark.parametrize("role", ["skeleton", "common"])
def test_no_such_file(place: Place, role: str) -> None:
    inputs = replace(place.inputs, **{role: str(place.folder / "nowhere.csv")})
    with pytest.raises(SourceError, match=r"nowhere\.csv"):
        build(inputs, MAP, place.out)
    assert not place.out.exists()
    assert place.hidden() == []


def test_a_folder_of_files(place: Place) -> None:
    (place.folder / "raw").mkdir()
    for name in ("a.csv", "b.csv"):
        (place.folder / "raw" / name).write_bytes(skeleton_of(9))
    inputs = replace(place.inputs, skeleton=str(place.folder / "raw"))
    with pytest.raises(SourceError, match="2 files are there, one is read"):
        build(inputs, MAP, place.out)


@pytest.mark.parametrize(
    ("ending", "compress"), [(".gz", gzip.compress), (".zst", zstandard.ZstdCompressor().compress)]
)
def test_compressed_files(place: Place, ending: str, compress: Callable[[bytes], bytes]) -> None:
    plain = place.build()
    packed = {}
    for role in ("skeleton", "common"):
        path: Path = getattr(place, role)
        packed[role] = str(path.with_name(path.name + ending))
        Path(packed[role]).write_bytes(compress(path.read_bytes()))
    built = build(Aliccp(**packed), MAP, place.folder / "packed")
    assert tree(built.out, "manifest.json") == tree(plain.out, "manifest.json")
    assert built.manifest["files"] == plain.manifest["files"]


def test_a_cut_archive(place: Place) -> None:
    path = place.folder / "skeleton.csv.gz"
    path.write_bytes(gzip.compress(skeleton_of(5000))[:-20])
    with pytest.raises(SourceError, match=r"skeleton\.csv\.gz"):
        build(replace(place.inputs, skeleton=str(path)), MAP, place.out)
    assert not place.out.exists()
    assert place.hidden() == []


@pytest.mark.parametrize("role", ["skeleton", "common"])
def test_a_file_that_changes_while_it_is_read(place: Place, role: str) -> None:
    def disturb(progress: Progress) -> None:
        if progress.stage == "write":
            with getattr(place, role).open("ab") as file:
                file.write(b"\n")

    with pytest.raises(SourceError, match=rf"{role}\.csv: changed while it was read"):
        place.build(progress=disturb)
    assert not place.out.exists()
    assert place.hidden() == []


def test_a_file_more_or_less_of_a_table_is_a_change(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        (folder / name).write_text("user,click,shop\n" + "u1,1,s1\nu2,0,s2\n" * 20)
    shop = Feature(name="f0_shop", src=0, field="shop", encoding="vocab", vocab_num_tokens=5)
    table = Table(entity_id="user", y_ctr="click", y_cvr=None)
    featuremap = FeatureMap(features=(shop,), table=table, train_ratio=1.0)

    def more(progress: Progress) -> None:
        (folder / "c.csv").write_text("user,click,shop\nu3,1,s3\n")

    def less(progress: Progress) -> None:
        if progress.rows:
            (folder / "c.csv").unlink(missing_ok=True)

    for change in (more, less):
        with pytest.raises(SourceError, match=r"c\.csv: changed while it was read"):
            build(PlainTable(table=str(folder)), featuremap, tmp_path / "out", progress=change)
        assert not (tmp_path / "out").exists()


def test_progress_counts_rows(place: Place) -> None:
    seen: list[Progress] = []
    place.build(progress=seen.append)
    last = {one.stage: one for one in seen}
    lines = len(common_of().splitlines())
    assert list(last) == ["scan", "write"]
    assert [(one.rows, one.rejects) for one in last.values()] == [(60 + lines, 0), (60, 0)]
    assert all(one.shards_done == one.shards > 0 for one in last.values())


def test_an_interrupt_leaves_the_old_result(place: Place) -> None:
    before = tree(place.build().out)

    def interrupt(progress: Progress) -> None:
        if progress.stage == "write":
            raise KeyboardInterrupt

    other = replace(MAP, funnel="drop")
    with pytest.raises(KeyboardInterrupt):
        place.build(other, overwrite=True, progress=interrupt)
    assert tree(place.out) == before
    seen: list[Progress] = []
    place.build(other, overwrite=True, progress=seen.append)
    assert {one.stage for one in seen if one.rows} == {"write"}  # what was scanned is kept
    assert tree(place.out) != before
    assert place.hidden() == []


def test_featuremaps_for_the_other_kind_of_data(place: Place) -> None:
    table = Table(entity_id="user", y_ctr="click", y_cvr=None)
    own = tuple(one for one in FEATURES if one.src == 0)
    with pytest.raises(FeaturemapError, match="is it meant for `table`"):
        place.build(FeatureMap(features=own, table=table))
    with pytest.raises(FeaturemapError, match="entity_id, y_ctr and y_cvr, the table's columns"):
        build(PlainTable(table=str(place.skeleton)), MAP, place.out)
    assert not place.out.exists()


# Limits

LIMITED = """
import resource, sys
from pathlib import Path
from ingot.converters.recsys.ctr.preprocess.job import build
from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp
from ingot.converters.recsys.ctr.featuremap import load
from ingot.converters.errors import OutputError
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
featuremap = load(folder / "featuremap.yaml")
inputs = Aliccp(skeleton=str(folder / "skeleton.csv"), common=str(folder / "common.csv"))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
try:
    build(inputs, featuremap, folder / "out", overwrite=True)
except OutputError as error:
    print(error)
    sys.exit(7)
"""


LARGE = [pytest.param(limit, marks=pytest.mark.long) for limit in (0, 200, 9_000, 15_000, 60_000)]


@pytest.mark.more
@pytest.mark.parametrize("limit", [2_000, *LARGE])
def test_a_full_disk_leaves_the_old_result(place: Place, limit: int) -> None:
    """A limit on the size of files stands for it: at every place where a build writes much."""
    place.skeleton.write_bytes(skeleton_of(6_000))
    before = tree(place.build(replace(MAP, funnel="drop")).out)
    place.build(out="fresh")
    shutil.copy(place.folder / "fresh/featuremap.yaml", place.folder)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(place.folder), str(limit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert "cannot be written" in done.stdout
    assert done.stdout.startswith(str(place.folder / "out"))
    assert ".ingot-stage" not in done.stdout
    assert done.stderr == ""
    assert tree(place.out) == before
    place.build(overwrite=True)
    assert tree(place.out) == tree(place.folder / "fresh")
    assert place.hidden() == []


# Not run.json's peak_rss_bytes: the system hands a process the peak of the one that started it.
MEASURED = """
import sys
from pathlib import Path
from ingot.converters.recsys.ctr.preprocess.job import build
from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp
from ingot.converters.recsys.ctr.featuremap import load
folder = Path(sys.argv[1])
names = {role: str(folder / f"{role}.csv") for role in ("skeleton", "common")}
inputs = Aliccp(**names, block_bytes=1 << 20)
build(inputs, load(folder / "featuremap.yaml"), folder / "out", overwrite=True)
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


def measured(place: Place, rows: int, entities: int) -> int:
    """The most memory of a build in a process of its own."""
    place.skeleton.write_bytes(skeleton_of(rows, entities))
    place.common.write_bytes(common_of(entities))
    command = [sys.executable, "-c", MEASURED, str(place.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) << 10


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the peak")
def test_memory_does_not_grow_with_rows(place: Place) -> None:
    place.build()
    shutil.copy(place.out / "featuremap.yaml", place.folder)
    few = measured(place, 100_000, 500)
    many = measured(place, 1_000_000, 500)
    assert many - few < 64 << 20
    # About 60 bytes for an entity's name, split, line and counts, and as much while arrays grow.
    entities = measured(place, 1_000_000, 400_000)
    assert entities - many < 400_000 * 400
