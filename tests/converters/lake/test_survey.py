"""Files of a lake put together to data sets."""

import gzip
import json
import random
import zipfile
from pathlib import Path

import pytest

from ingot.converters.errors import SourceError
from ingot.converters.lake.survey import SeenFile, group_by_reason, survey_lake
from ingot.converters.sources.facts import LeftOut
from ingot.converters.sources.file_kinds import side_file_reason
from ingot.converters.sources.source import EntryFiles, inspect_entry
from ingot.converters.sources.storage.listing import list_location

TALK = {"instruction": "Say it in other words.", "output": "It is said in other words now."}
TEXT = {
    "title": "A river",
    "body": "The river goes down to the sea, and the sea does not get full.",
}
TABLE = "station,value,at\nA,1.5,2020\nB,2.5,2021\n"


def lay(root: Path, name: str, content: object) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        content = "".join(json.dumps({**content, "n": n}) + "\n" for n in range(5))
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def surveyed(root: Path, known=None, recognise=lambda source: None, shuffle=None):
    seen = []
    for entry in list_location(str(root)).entries:
        if why := side_file_reason(entry.name):
            seen.append(
                SeenFile(entry=entry, looked=EntryFiles([], [LeftOut(name=entry.name, why=why)]))
            )
            continue
        try:
            seen.append(
                SeenFile(entry=entry, looked=inspect_entry(entry, direct=False, head=1 << 16))
            )
        except SourceError as error:
            seen.append(SeenFile(entry=entry, fault=error.problem))
    if shuffle is not None:
        random.Random(shuffle).shuffle(seen)
    return survey_lake(str(root), seen, known or {}, recognise)


def told(found) -> dict[str, list[str]]:
    return {one.name: [file.name for file in one.source.files] for one in found.sets}


def test_reasons_are_grouped_with_the_first_names():
    reason = "another shape than the other files"
    shapes = [LeftOut(name=f"s{n}", why=f"{reason}: csv with {n}", reason=reason) for n in range(8)]
    empty = [LeftOut(name=name, why="empty") for name in "xy"]
    assert group_by_reason([empty[0], *shapes, empty[1]]) == [
        ("another shape than the other files", 8, ["s0", "s1", "s2", "s3", "s4"]),
        ("empty", 2, ["x", "y"]),
    ]


def test_shards_splits_and_configs_are_one_data_set(tmp_path):
    lay(tmp_path, "wiki/train/part-0.jsonl", TEXT)
    lay(tmp_path, "wiki/train/part-1.jsonl", TEXT)
    lay(tmp_path, "wiki/test/part-0.jsonl", TEXT)
    lay(tmp_path, "exam/README.md", "---\nlicense: mit\n---\n")
    lay(tmp_path, "exam/zh/a.jsonl", TALK)
    lay(tmp_path, "exam/en/a.jsonl", TALK)
    lay(tmp_path, "talk/zh/a.jsonl", TALK)
    lay(tmp_path, "talk/en/a.jsonl", TALK)
    assert told(surveyed(tmp_path)) == {
        "exam": ["exam/en/a.jsonl", "exam/zh/a.jsonl"],
        "talk--en": ["talk/en/a.jsonl"],
        "talk--zh": ["talk/zh/a.jsonl"],
        "wiki": ["wiki/test/part-0.jsonl", "wiki/train/part-0.jsonl", "wiki/train/part-1.jsonl"],
    }


def test_shapes_of_one_folder_are_told_apart_by_what_their_files_are_called(tmp_path):
    lay(tmp_path, "mixed/talks_train.jsonl", TALK)
    lay(tmp_path, "mixed/talks_test.jsonl", TALK)
    lay(tmp_path, "mixed/articles.jsonl", TEXT)
    lay(tmp_path, "mixed/stations.csv", TABLE)
    assert told(surveyed(tmp_path)) == {
        "mixed--articles": ["mixed/articles.jsonl"],
        "mixed--stations": ["mixed/stations.csv"],
        "mixed--talks": ["mixed/talks_test.jsonl", "mixed/talks_train.jsonl"],
    }


def test_a_note_beside_data_is_left_out_and_text_alone_is_data(tmp_path):
    lay(tmp_path, "a/data.jsonl", TALK)
    lay(tmp_path, "a/notes.txt", "Only a few words.\n")
    lay(tmp_path, "b/book.txt", "Chapter one.\nIt was a dark night by the sea, and nobody slept.\n")
    found = surveyed(tmp_path)
    assert told(found) == {"a": ["a/data.jsonl"], "b": ["b/book.txt"]}
    first = next(one for one in found.sets if one.name == "a")
    assert [one.name for one in first.source.left_out] == ["a/notes.txt"]


@pytest.mark.more
def test_every_file_is_in_one_data_set_or_left_out_once(tmp_path):
    lay(tmp_path, "a/data.jsonl", TALK)
    lay(tmp_path, "a/LICENSE", "MIT")
    lay(tmp_path, "a/empty.jsonl", b"")
    lay(tmp_path, "a/cut.parquet", b"PAR1 and no end")
    lay(tmp_path, "only/README.md", "# nothing else")
    lay(tmp_path, "odd/a.bin", bytes(range(256)) * 8)
    lay(tmp_path, "mixed/x.jsonl", TALK)
    lay(tmp_path, "mixed/y.jsonl", TEXT)
    with zipfile.ZipFile(tmp_path / "mixed" / "z.zip", "w") as packed:
        packed.writestr("inner.jsonl", json.dumps(TEXT) + "\n")
        packed.writestr("other.csv", TABLE)
    found = surveyed(tmp_path)
    files = [one.name for each in found.sets for one in (*each.source.files, *each.faults)]
    out = [one.name for each in found.sets for one in each.source.left_out]
    out += [one.name for one in found.left_out]
    names = {entry.name for entry in list_location(str(tmp_path)).entries} - {"mixed/z.zip"}
    packed_names = ["mixed/z.zip/inner.jsonl", "mixed/z.zip/other.csv"]
    assert sorted([*files, *out]) == sorted([*names, *packed_names])


def test_a_file_that_cannot_be_read_belongs_to_those_that_end_alike(tmp_path):
    cut = gzip.compress(b'{"a": 1}\n' * 900)[:40]
    lay(tmp_path, "a/part-0.jsonl", TALK)
    lay(tmp_path, "a/part-1.jsonl.gz", cut)
    lay(tmp_path, "a/cut.parquet", b"PAR1 and no end")
    found = surveyed(tmp_path)
    assert {one.name: [bad.name for bad in one.faults] for one in found.sets} == {
        "a--cut": ["a/cut.parquet"],
        "a--jsonl": ["a/part-1.jsonl.gz"],
    }


def test_names_stay_what_they_were(tmp_path):
    lay(tmp_path, "mixed/talks.jsonl", TALK)
    first = told(surveyed(tmp_path))
    assert first == {"mixed": ["mixed/talks.jsonl"]}
    lay(tmp_path, "mixed/articles.jsonl", {**TEXT, "body": TEXT["body"] * 50})
    known = {file: name for name, files in first.items() for file in files}
    assert told(surveyed(tmp_path, known)) == {
        "mixed": ["mixed/talks.jsonl"],
        "mixed--articles": ["mixed/articles.jsonl"],
    }


def test_a_name_of_another_data_set_is_not_taken(tmp_path):
    lay(tmp_path, "a--b/x.jsonl", TALK)
    lay(tmp_path, "a/b/x.jsonl", TALK)
    names = sorted(told(surveyed(tmp_path)))
    assert names[0] == "a--b"
    assert names[1].startswith("a--b-")


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_files_does_not_matter(tmp_path, seed):
    for name, content in [("a/x.jsonl", TALK), ("a/y.jsonl", TEXT), ("a/z.csv", TABLE)]:
        lay(tmp_path, name, content)
    assert {n: sorted(f) for n, f in told(surveyed(tmp_path, shuffle=seed)).items()} == told(
        surveyed(tmp_path)
    )


def test_what_another_command_reads_stays_together(tmp_path):
    lay(tmp_path, "clicks/a.jsonl", TALK)
    lay(tmp_path, "clicks/b.csv", TABLE)
    found = surveyed(tmp_path, recognise=lambda source: "clicks")
    assert told(found) == {"clicks": ["clicks/a.jsonl", "clicks/b.csv"]}
    assert found.sets[0].said == "clicks"


def test_files_in_the_root_are_named_after_it(tmp_path):
    lay(tmp_path / "lake", "a.jsonl", TALK)
    found = surveyed(tmp_path / "lake")
    assert told(found) == {"lake": ["a.jsonl"]}
    assert found.sets[0].source.location == str(tmp_path / "lake")


def test_control_characters_stand_in_no_location(tmp_path):
    lay(tmp_path, "new\nline/a.jsonl", TALK)
    one = surveyed(tmp_path).sets[0]
    assert one.source.location.endswith("new_line")
    assert next(iter(one.source.batches())).values[0]["instruction"] == TALK["instruction"]
