"""Which files are found, in which order, and how large ones are cut into units."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read import input_files
from ingot.converters.megatron.read.input_files import InputFile, Unit, plan_units, scan
from ingot.converters.megatron.run.pipeline import FileTally


def test_files_are_found_by_pattern_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = ["b.parquet", "a/c.parquet", "a/.h/x.parquet", ".i.parquet", "a-b/d.parquet", "e.txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12")
    found = [file.name for file in scan(tmp_path)]
    assert found == ["a-b/d.parquet", "a/c.parquet", "b.parquet"]
    assert [file.name for file in scan(tmp_path, recursive=False)] == ["b.parquet"]
    assert [file.name for file in scan(tmp_path, "a/*.parquet")] == ["a/c.parquet"]
    assert [file.name for file in scan(tmp_path, "*.txt")] == ["e.txt"]
    with pytest.raises(SourceError, match=r"no file in it or its folders fits '\*\.pq'"):
        scan(tmp_path, "*.pq")
    with pytest.raises(SourceError, match="no such folder"):
        scan(tmp_path / "nowhere")


def test_a_file_crosses_to_another_process_whatever_its_name() -> None:
    file = InputFile(name="\udcff床.parquet", path=Path("/x/\udcff床.parquet"), bytes=1, mtime_ns=2)
    assert pickle.loads(pickle.dumps(file)) == file


def test_units_cover_every_row_group_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"text": [f"text {i}" for i in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=7)
    monkeypatch.setattr(input_files, "UNIT_BYTES", 300)
    found = plan_units(scan(tmp_path), whole_files=False)
    groups = [group for unit in found for group in range(*(unit.row_groups or (0, 0)))]
    assert groups == list(range(15))
    assert [unit.first_row for unit in found] == [
        7 * (unit.row_groups or (0, 0))[0] for unit in found
    ]
    assert len(plan_units(scan(tmp_path), whole_files=True)) == 1


@pytest.mark.parametrize("name", ["batch_size", "workers", "queue_cap", "processes"])
def test_counts_below_one_are_refused(name: str) -> None:
    given: dict[str, int] = {name: 0}
    with pytest.raises(ConversionError, match=f"`{name}` takes 1 or more, not 0"):
        WorkOptions(**given)  # type: ignore[arg-type]


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConversionError, match="`max_chars` takes 1 or more"):
        BuildOptions(max_chars=0)
    with pytest.raises(ConversionError, match="`min_tokens` is above `max_tokens`"):
        BuildOptions(min_tokens=3, max_tokens=2)
    with pytest.raises(ConversionError, match="names a column twice"):
        BuildOptions(text_cols=("a", "a"))


def test_the_environment_states_the_threads_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    work = WorkOptions(tok_parallel="internal")
    monkeypatch.setenv("RAYON_NUM_THREADS", "3")
    assert work.threads() == (1, 3)
    monkeypatch.setenv("RAYON_NUM_THREADS", "many")
    with pytest.raises(ConversionError, match="number"):
        work.threads()


def test_a_file_of_several_units_is_told_once_as_through_or_as_failed() -> None:
    units = [
        Unit(number=number, file=file, row_groups=None, first_row=0, bytes=1)
        for number, file in enumerate((0, 0, 0, 1, 1))
    ]
    told: list[Any] = []
    files = FileTally(units, told.append)
    for unit, failed in zip(units, (False, True, True, False, False), strict=True):
        files.done(unit, failed=failed)
    counts = [{key: one[key] for key in one if key != "kind"} for one in told]
    assert counts == [{"failed_files": 1}, {"files": 1}]
