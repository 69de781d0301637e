"""What holds for every reader of the registry: one more reader is one more file to try it on."""

import gzip
import sys
import zipfile
from pathlib import Path

import pytest

from ingot.converters.convert import plan
from ingot.converters.convert.job import convert
from ingot.converters.errors import SourceError
from ingot.converters.mapping.bind import bind
from ingot.converters.records import read_records
from ingot.converters.rows import Batch
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.readers import READERS
from ingot.converters.sources.sample import draw_sample
from tests.converters.sources.sound_files import SOUND_FILES, SoundFile

WRONG = {"no file of any kind": b"\0\1\2\3" * 99, "zeros": bytes(500), "noise": bytes(range(256))}


@pytest.fixture(params=SOUND_FILES)
def form(request: pytest.FixtureRequest) -> str:
    """The name of a reader that can be tried here."""
    name: str = request.param
    if package := SOUND_FILES[name].package:
        pytest.importorskip(package)
    return name


@pytest.fixture
def sound(form: str) -> SoundFile:
    return SOUND_FILES[form]


@pytest.fixture
def data(sound: SoundFile) -> bytes:
    return sound.data


def opened(place: Path, form: str) -> Source:
    return open_source(str(place), SOUND_FILES[form].spec(form))


def numbers(batches: list[Batch], form: str) -> list[int]:
    return [SOUND_FILES[form].number(row) for batch in batches for row in batch.values]


def read(place: Path, form: str) -> tuple[list[int], list[int], str]:
    """Return the rows read, the rows that are bad, and the error behind them."""
    batches: list[Batch] = []
    error = ""
    try:
        batches.extend(opened(place, form).batches())
    except SourceError as problem:
        error = str(problem)
    return numbers(batches, form), [bad.row for one in batches for bad in one.bad], error


def test_every_reader_has_a_sound_file() -> None:
    """What Lance reads is no file but a table: `test_lance` holds it."""
    assert {*SOUND_FILES, "lance"} == READERS.keys()


def test_rows_come_in_order_and_numbered(
    tmp_path: Path, form: str, sound: SoundFile, data: bytes
) -> None:
    (tmp_path / sound.name).write_bytes(data)
    source = opened(tmp_path / sound.name, form)
    assert [file.facts.format for file in source.files] == [form]
    batches = list(source.batches())
    read = numbers(batches, form)
    assert read == list(range(sound.count))
    assert [row for batch in batches for row in batch.rows] == read
    assert numbers(list(source.batches()), form) == read  # again, from the start


def test_files_of_a_folder_come_one_behind_the_other(
    tmp_path: Path, form: str, sound: SoundFile, data: bytes
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / sound.name).write_bytes(data)
    source = opened(tmp_path, form)
    count = sound.count
    assert numbers(list(source.batches()), form) == [*range(count)] * 2
    first, second = source.files
    assert numbers(list(source.batches([second])), form) == list(range(count))
    assert {batch.file for batch in source.batches([first])} == {first.name}


def test_shards_put_together_are_the_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    sound: SoundFile,
    data: bytes,
) -> None:
    """Where a file is cut, each piece is read from its own place on."""
    monkeypatch.setattr(plan, "SHARD_BYTES", max(1, len(data) // 5))
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / sound.name).write_bytes(data)
    source = opened(tmp_path, form)
    shards = plan.plan_shards(source)
    assert len(shards) > 1
    batches = [batch for files in shards for batch in source.batches(files)]
    assert numbers(batches, form) == [*range(sound.count)] * 2
    assert [row for one in batches for row in one.rows] == [*range(sound.count)] * 2


def test_a_conversion_counts_every_row(
    tmp_path: Path, form: str, sound: SoundFile, data: bytes
) -> None:
    (tmp_path / sound.name).write_bytes(data)
    source = opened(tmp_path / sound.name, form)
    mapping = bind({"version": 2, "text": sound.text, "meta": {}}, ())
    done = convert(source, mapping, tmp_path / "out")
    counts = done.manifest["records"]
    assert counts["written"] == sound.count
    texts = [row["text"] for row in read_records(tmp_path / "out/records")]
    assert len(texts) == sound.count


@pytest.mark.parametrize("packed", ["gz", "zip"])
def test_packed_files_are_read_as_plain_ones(
    tmp_path: Path, form: str, sound: SoundFile, data: bytes, packed: str
) -> None:
    (tmp_path / "README.md").write_text("# Read me")
    if packed == "gz":
        (tmp_path / f"{sound.name}.gz").write_bytes(gzip.compress(data))
    else:
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr(f"data/{sound.name}", data)
    place = next(one for one in tmp_path.iterdir() if one.name != "README.md")
    assert read(place, form) == (list(range(sound.count)), [], "")


def test_a_sample_is_of_the_file_and_repeats(
    tmp_path: Path, form: str, sound: SoundFile, data: bytes
) -> None:
    (tmp_path / sound.name).write_bytes(data)
    source = opened(tmp_path / sound.name, form)
    drawn = draw_sample(source, rows=20, max_bytes=10_000)
    assert drawn.complete == (sound.count <= 20)
    found = [sound.number(row.value) for row in drawn.rows]
    assert found == sorted(set(found))
    assert all(row.row in (-1, number) for row, number in zip(drawn.rows, found, strict=True))
    assert drawn == draw_sample(source, rows=20, max_bytes=10_000)


@pytest.mark.parametrize("share", [0.98, 0.5])
def test_a_file_that_is_cut_off_is_told(
    tmp_path: Path, form: str, sound: SoundFile, data: bytes, share: float
) -> None:
    """No row is made up; what comes before the cut is there, or the file is an error."""
    (tmp_path / sound.name).write_bytes(data[: int(len(data) * share)])
    rows, bad, error = read(tmp_path / sound.name, form)
    assert rows == list(range(len(rows)))
    assert len(rows) < sound.count or sound.cut == "nothing"
    match sound.cut:
        case "error":
            assert sound.name in error
            assert rows or share < 0.9 or sound.count == 1
            assert not bad
        case "error at once":
            assert sound.name in error
            assert not rows
        case "bad row":
            assert (bad, error) == ([len(rows)], "")
        case "nothing":
            assert error == ""


def test_an_empty_file_is_told(tmp_path: Path, form: str, sound: SoundFile) -> None:
    place = tmp_path / sound.name
    place.write_bytes(b"")
    rows, bad, error = read(place, form)
    assert (rows, bad) == ([], [])
    assert str(place) in error
    assert "empty" in error


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_bytes_of_another_kind_give_no_rows(
    tmp_path: Path, form: str, sound: SoundFile, content: bytes
) -> None:
    place = tmp_path / sound.name
    place.write_bytes(content)
    rows, bad, error = read(place, form)
    assert rows == []
    assert bad or sound.name in error


@pytest.mark.parametrize("form", [name for name, one in SOUND_FILES.items() if one.package])
def test_without_its_package_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    sound = SOUND_FILES[form]
    pytest.importorskip(sound.package)
    (tmp_path / sound.name).write_bytes(sound.data)
    monkeypatch.setitem(sys.modules, sound.package, None)
    assert 'pip install "ingot[' in read(tmp_path / sound.name, form)[2]
