"""A lane and its journal: what is finished stays, what is not is gone when it is opened again."""

import json
from pathlib import Path

import numpy as np
import pytest

from ingot.converters.megatron.documents import ShapedDocuments
from ingot.converters.megatron.write import lanes
from ingot.converters.megatron.write.lanes import (
    LANE_FILES,
    Lane,
    LaneStretch,
    drop_engine,
    file_blocks,
    lane_file,
    lane_numbers,
    read_journal,
    recover_lanes,
)

FACTS = {"rows": 2}


def documents(*tokens: int) -> ShapedDocuments:
    """One document per token, that token alone; its mask says the same."""
    ones = np.ones(len(tokens), np.int64)
    ids = np.array(tokens, np.uint16)
    return ShapedDocuments(tokens=ids, mask=ids.astype(np.uint8), lengths=ones, sizes=ones)


def unit(lane: Lane, number: int, *tokens: int, engine: str = "hf") -> LaneStretch:
    lane.append(documents(*tokens))
    lane.reject(b"%d\n" % number)
    return lane.finish(number, engine, FACTS)


def tokens(base: Path, stretch: LaneStretch) -> list[int]:
    start, end = stretch.spans["bin"]
    content = b"".join(file_blocks(lane_file(base, stretch.lane, "bin"), start, end))
    ids: list[int] = np.frombuffer(content, np.uint16).tolist()
    return ids


def found(base: Path, lane: int = 0) -> dict[int, list[int]]:
    stretches = read_journal(base, lane).stretches
    return {number: tokens(base, stretch) for number, stretch in stretches.items()}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The base of a lane with two finished units, nothing of them synced."""
    with Lane(base=tmp_path / "a") as lane:
        unit(lane, 0, 1, 2)
        unit(lane, 1, 3)
    return tmp_path / "a"


def test_units_are_found_again_with_everything_that_is_known_of_them(base: Path) -> None:
    assert found(base) == {0: [1, 2], 1: [3]}
    first, second = read_journal(base, 0).stretches.values()
    assert first.spans == {
        "bin": (0, 4),
        "lengths": (0, 8),
        "documents": (0, 8),
        "mask": (0, 2),
        "rejects": (0, 2),
    }
    assert (second.engine, second.facts, second.failed, second.lane) == ("hf", FACTS, None, 0)


def test_what_was_not_finished_is_cut_off_and_the_lane_goes_on(base: Path) -> None:
    with Lane(base=base) as lane:
        unit(lane, 2, 4)
        lane.append(documents(5, 6))  # and then the process is gone
    with Lane(base=base) as lane:
        unit(lane, 3, 7)
    assert found(base) == {0: [1, 2], 1: [3], 2: [4], 3: [7]}
    assert lane_file(base, 0, "bin").stat().st_size == 10


def test_rollback_to_the_beginning_of_the_unit(base: Path) -> None:
    with Lane(base=base) as lane:
        lane.append(documents(4, 6))
        lane.reject(b"stays\n")
        lane.finish(2, "hf", FACTS)
        lane.append(documents(8))
        lane.reject(b"goes\n")
        lane.rollback()
        lane.finish(3, "hf", FACTS)
    assert found(base) == {0: [1, 2], 1: [3], 2: [4, 6], 3: []}
    assert lane_file(base, 0, "rejects").read_bytes() == b"0\n1\nstays\n"
    recover_lanes(base)  # the checksums are those of what is there
    assert sorted(found(base)) == [0, 1, 2, 3]


def test_a_failed_unit_gives_nothing_and_is_tried_again_by_the_next_run(base: Path) -> None:
    name = "caf\udce9.parquet: cannot be read"  # a name that is no UTF-8
    with Lane(base=base) as lane:
        lane.append(documents(9))
        lane.reject(b"x\n")
        lane.finish(2, "", {"rows": 0}, name)
        unit(lane, 3, 4)
    assert found(base) == {0: [1, 2], 1: [3], 2: [], 3: [4]}
    assert read_journal(base, 0).stretches[2].failed == name
    recover_lanes(base)
    assert found(base) == {0: [1, 2], 1: [3], 3: [4]}
    with Lane(base=base) as lane:
        unit(lane, 2, 9)
    recover_lanes(base)
    assert found(base) == {0: [1, 2], 1: [3], 3: [4], 2: [9]}


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_line_counts_for_nothing(base: Path, cut: int) -> None:
    journal = lane_file(base, 0, "journal")
    journal.write_bytes(journal.read_bytes()[:-cut])
    assert found(base) == {0: [1, 2]}
    recover_lanes(base)
    with Lane(base=base) as lane:
        unit(lane, 1, 8)
    assert found(base) == {0: [1, 2], 1: [8]}
    assert lane_file(base, 0, "bin").stat().st_size == 6


@pytest.mark.parametrize("garbage", [b"\0" * 500, b"\0" * 99 + b"\n", b"{]\n", b"\xff\xfe\n{}\n"])
def test_garbage_behind_the_last_unit(base: Path, garbage: bytes) -> None:
    for kind in (*LANE_FILES, "journal"):
        with lane_file(base, 0, kind).open("ab") as file:
            file.write(garbage)
    assert found(base) == {0: [1, 2], 1: [3]}
    recover_lanes(base)
    assert {kind: lane_file(base, 0, kind).stat().st_size for kind in LANE_FILES} == {
        "bin": 6,
        "lengths": 12,
        "documents": 12,
        "mask": 3,
        "rejects": 4,
    }
    drop_engine(base, 0, "gigatoken")  # a line that is appended is read
    with Lane(base=base) as lane:
        unit(lane, 2, 4)
    assert found(base) == {0: [1, 2], 1: [3], 2: [4]}


def test_content_that_a_power_cut_took_is_noticed_behind_the_last_sync(tmp_path: Path) -> None:
    base = tmp_path / "a"
    with Lane(base=base) as lane:
        unit(lane, 0, 1, 2)
        lane.sync()
        unit(lane, 1, 3, 4)
        unit(lane, 2, 5)
    path = lane_file(base, 0, "bin")
    content = bytearray(path.read_bytes())
    content[4:8] = b"\0\0\0\0"  # of unit 1; the length is right
    path.write_bytes(content)
    assert sorted(read_journal(base, 0).stretches) == [0, 1, 2]
    assert sorted(read_journal(base, 0, check=True).stretches) == [0]
    recover_lanes(base)
    assert found(base) == {0: [1, 2]}
    assert path.stat().st_size == 4


def test_what_was_synced_is_not_read_again(tmp_path: Path) -> None:
    base = tmp_path / "a"
    with Lane(base=base) as lane:
        unit(lane, 0, 1, 2)
        lane.sync()
    lane_file(base, 0, "bin").write_bytes(b"\0\0\0\0")
    assert sorted(read_journal(base, 0, check=True).stretches) == [0]


@pytest.mark.parametrize("kind", LANE_FILES)
def test_a_file_that_is_too_short_ends_the_list(base: Path, kind: str) -> None:
    path = lane_file(base, 0, kind)
    path.write_bytes(path.read_bytes()[:-1])
    assert sorted(read_journal(base, 0).stretches) == [0]
    path.unlink()
    assert sorted(read_journal(base, 0).stretches) == []
    with Lane(base=base) as lane:
        unit(lane, 0, 7)
    assert found(base) == {0: [7]}


def test_it_is_synced_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "SYNC_SECONDS", -1.0)
    with Lane(base=tmp_path / "a") as lane:
        unit(lane, 0, 1)
        unit(lane, 1, 1)
    lines = lane_file(tmp_path / "a", 0, "journal").read_bytes().splitlines()
    assert ["synced" in json.loads(line) for line in lines] == [False, True, False, True]


def test_what_an_engine_did_is_done_again_and_leaves_a_hole(base: Path) -> None:
    with Lane(base=base) as lane:
        unit(lane, 2, 4, engine="gigatoken")
        unit(lane, 3, 5, engine="hf")
    drop_engine(base, 0, "gigatoken")
    assert found(base) == {0: [1, 2], 1: [3], 3: [5]}
    with Lane(base=base) as lane:
        unit(lane, 2, 6)
    assert found(base) == {0: [1, 2], 1: [3], 3: [5], 2: [6]}
    recover_lanes(base)
    assert found(base)[2] == [6]


def test_lanes_of_other_prefixes_are_not_its_own(tmp_path: Path) -> None:
    names = ("a", "a.b", "a.lane-1", "a.journal-1", "a.bin", "a-1", "b", "a.1", "a.bin-1")
    for name in names:
        for number in (0, 1, 12):
            with Lane(base=tmp_path / name, number=number) as lane:
                unit(lane, number, len(name))
    assert len(list(tmp_path.iterdir())) == len(names) * 3 * (len(LANE_FILES) + 1)
    for name in names:
        assert lane_numbers(tmp_path / name) == [0, 1, 12]
        assert found(tmp_path / name, 12) == {12: [len(name)]}


def test_names_with_the_characters_of_patterns(tmp_path: Path) -> None:
    base = tmp_path / "[a]*?\udcff"
    with Lane(base=base, number=3) as lane:
        unit(lane, 0, 1)
    assert lane_numbers(base) == [3]
    assert found(base, 3) == {0: [1]}


def test_a_stretch_that_is_not_there_is_an_error(base: Path) -> None:
    with pytest.raises(OSError, match="lacks 2 bytes"):
        list(file_blocks(lane_file(base, 0, "bin"), 4, 8))


def test_a_lane_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    lane_file(tmp_path / "a", 0, "mask").mkdir()
    with pytest.raises(IsADirectoryError), Lane(base=tmp_path / "a"):
        pass


def test_a_journal_of_the_former_version_is_read(tmp_path: Path) -> None:
    """Lines as ingot wrote them before the engines had a list of proved versions."""
    line = (
        b'{"unit": 0, "spans": {"bin": [0, 4], "lengths": [0, 4], "documents": [0, 4], '
        b'"mask": [0, 0], "rejects": [0, 0]}, "engine": "gigatoken", "facts": {"rows": 1}, '
        b'"failed": null, "crcs": {"bin": 0, "lengths": 0, "documents": 0, "mask": 0, '
        b'"rejects": 0}}\n{"synced": true}\n'
    )
    base = tmp_path / "x"
    lane_file(base, 0, "journal").write_bytes(line)
    for kind in ("bin", "lengths", "documents"):
        lane_file(base, 0, kind).write_bytes(bytes(4))
    journal = read_journal(base, 0, check=True)
    assert journal.stretches[0].engine == "gigatoken"
    assert journal.ends == {
        "bin": 4,
        "lengths": 4,
        "documents": 4,
        "mask": 0,
        "rejects": 0,
        "journal": len(line),
    }
    drop_engine(base, 0, "gigatoken")
    assert read_journal(base, 0).stretches == {}
