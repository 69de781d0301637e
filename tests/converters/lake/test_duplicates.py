"""Repeats over sets against a dict; bins, blocks, collisions, order, files."""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.lake import duplicates
from ingot.converters.lake.duplicates import Repeats, drop_mask, find_duplicates, open_drops

Lake = Mapping[str, Sequence[bytes]]
# Alike at the beginning, at the end, or nearly; first and last of the bins.
SOME = [
    bytes(16),
    b"\xff" * 16,
    bytes(15) + b"\1",
    b"\1" + bytes(15),
    bytes(8) + b"\xff" * 8,
    b"\x80" + bytes(15),
    b"\x7f" + b"\xff" * 15,
    b"\x40" + bytes(15),
]
HASHES = st.sampled_from(SOME) | st.binary(min_size=16, max_size=16)
LAKES = st.dictionaries(
    st.sampled_from(["a", "b", "B", "ä", "a--b"]), st.lists(HASHES, max_size=20)
)


def written(lake: Lake, folder: Path) -> dict[str, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, hashed in lake.items():
        files[name] = folder / f"{name}.npy"
        np.save(files[name], np.frombuffer(b"".join(hashed), np.uint8).reshape(-1, 16))
    return files


def reference(lake: Lake) -> tuple[dict[str, Repeats], dict[str, list[bool]]]:
    seen: set[bytes] = set()
    held = {name: set(hashed) for name, hashed in lake.items()}
    told, drops = {}, {}
    for name in sorted(lake):
        own: set[bytes] = set()
        drops[name] = []
        within = across = 0
        for one in lake[name]:
            drops[name].append(one in seen or one in own)
            within += one in own
            across += one not in own and one in seen
            own.add(one)
        seen |= own
        shared = {
            other: sum(one in held[other] for one in lake[name]) for other in lake if other != name
        }
        most = sorted((item for item in shared.items() if item[1]), key=lambda x: (-x[1], x[0]))
        told[name] = Repeats(
            records=len(lake[name]), within=within, across=across, overlaps=dict(most[:10])
        )
    return told, drops


def check(lake: Lake, folder: Path) -> None:
    files = written(lake, folder / "hashes")
    found = find_duplicates(files, folder / "drops")
    told, drops = reference(lake)
    assert found.sets == told
    assert [list(one.overlaps) for one in found.sets.values()] == [
        list(told[name].overlaps) for name in found.sets
    ]
    for name, file in found.drops.items():
        bits = open_drops(file, len(lake[name]))
        kept = drop_mask(bits, 0, len(lake[name])).tolist()
        start = min(3, len(kept))
        count = min(9, len(kept) - start)
        assert drop_mask(bits, start, count).tolist() == kept[start : start + count]
        assert kept == drops[name]
        assert sum(kept) == found.sets[name].repeated
    assert sorted(path.name for path in (folder / "drops").iterdir()) == sorted(
        f"{name}.npy" for name in lake
    )
    assert find_duplicates(files).sets == told


@pytest.mark.more
@given(
    lake=LAKES,
    size=st.sampled_from([1, 2, 7, 1000]),
    block=st.sampled_from([1, 3, 1000]),
    often=st.sampled_from([1, 2, 64]),
)
@settings(max_examples=60)
def test_repeats_are_those_of_a_dict(
    tmp_path_factory: pytest.TempPathFactory, lake: Lake, size: int, block: int, often: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "BIN", size)
        patch.setattr(duplicates, "BLOCK", block)
        patch.setattr(duplicates, "_OFTEN", often)
        check(lake, tmp_path_factory.mktemp("lake"))


@pytest.mark.parametrize("many", [1, 16])
def test_many_sets_that_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(duplicates, "BIN", 100)
    monkeypatch.setattr(duplicates, "_MANY", many)
    rng = random.Random(5)
    common = [rng.randbytes(16) for _ in range(30)]
    lake = {
        f"{number:02}": rng.choices(common, k=rng.randrange(40))
        + [rng.randbytes(16) for _ in range(rng.randrange(5))]
        for number in range(40)
    }
    check(lake, tmp_path)


def test_nothing_depends_on_the_order_in_which_sets_are_given(tmp_path: Path) -> None:
    rng = random.Random(3)
    common = [rng.randbytes(16) for _ in range(50)]
    lake = {name: rng.choices(common, k=30) for name in "abcdefgh"}
    files = written(lake, tmp_path / "hashes")
    turned = dict(reversed(files.items()))
    one, other = find_duplicates(files, tmp_path / "1"), find_duplicates(turned, tmp_path / "2")
    assert list(one.sets.items()) == list(other.sets.items())
    for name in lake:
        assert one.drops[name].read_bytes() == other.drops[name].read_bytes()


def test_one_record_fifty_thousand_times_fills_no_bin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "BIN", 1000)
    monkeypatch.setattr(duplicates, "BLOCK", 5000)
    entries: Counter[str] = Counter()
    judge = duplicates._Search._judge

    def counted(search: duplicates._Search, bin_entries: np.ndarray) -> None:
        entries["most"] = max(entries["most"], len(bin_entries))
        judge(search, bin_entries)

    monkeypatch.setattr(duplicates._Search, "_judge", counted)
    check({"a": [bytes(16)] * 50_000, "b": [b"\1" * 16, bytes(16)]}, tmp_path)
    assert entries["most"] <= 12


def test_a_lake_without_sets(tmp_path: Path) -> None:
    assert find_duplicates({}, tmp_path / "drops").sets == {}


def test_what_a_killed_search_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "drops/.bins").mkdir(parents=True)
    (tmp_path / "drops/.bins/bin-0").write_bytes(b"left")
    check({"a": SOME, "b": SOME}, tmp_path)


FULL = """
import resource, signal, sys
from pathlib import Path
from ingot.converters.errors import OutputError
from ingot.converters.lake import duplicates
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
files = {path.stem: path for path in Path(sys.argv[1]).glob("*.npy")}
duplicates.BIN = int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    duplicates.find_duplicates(files, Path(sys.argv[2]))
except OutputError as error:
    sys.exit(str(error))
"""


@pytest.mark.more
@pytest.mark.parametrize(("room", "size"), [(20, 10_000), (1_500, 100), (300, 10_000)])
def test_no_room_is_an_error_that_says_so(tmp_path: Path, room: int, size: int) -> None:
    """For the pairs, the bins, the bitmaps."""
    rng = random.Random(1)
    written({name: [rng.randbytes(16) for _ in range(2000)] for name in "ab"}, tmp_path / "h")
    drops = tmp_path / "drops"
    arguments = [str(tmp_path / "h"), str(drops), str(room), str(size)]
    done = subprocess.run([sys.executable, "-c", FULL, *arguments], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{drops}"), done.stderr
    assert "cannot be written" in done.stderr
    assert list(drops.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", np.zeros((3, 8), np.uint8), np.zeros((3, 16), np.int8)]
)
def test_files_that_hold_no_hashes(tmp_path: Path, content: bytes | np.ndarray) -> None:
    file = tmp_path / "a.npy"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        np.save(file, content)
    with pytest.raises(ConversionError, match="hashes"):
        find_duplicates({"a": file})


def test_a_bitmap_of_another_set_is_told(tmp_path: Path) -> None:
    found = find_duplicates(written({"a": SOME * 3}, tmp_path), tmp_path / "drops")
    with pytest.raises(ConversionError, match="not a bitmap of 99 records"):
        open_drops(found.drops["a"], 99)
    found.drops["a"].write_bytes(b"")
    with pytest.raises(ConversionError, match="bitmap"):
        open_drops(found.drops["a"], 24)
