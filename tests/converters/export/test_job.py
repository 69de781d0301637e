"""An export as a folder: what it holds, when it is refused, what it never touches."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingot.converters.convert.job import ConvertOptions, stage_irrelevant
from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.export.job import ExportOptions, export
from ingot.converters.export.trainers import TRAINERS
from ingot.converters.json_yaml import validator
from ingot.converters.output.commit import find_finished
from ingot.converters.sources import open_source


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a folder by name, but for run.json."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.json"
    }


def rows_of(out: Path, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for file in manifest["data"] for row in pq.read_table(out / file).to_pylist()]


@pytest.fixture
def chats(said, make_result) -> Path:
    """Conversations that every trainer can express."""
    return make_result(
        [
            said("user: a?", "assistant: A.", system="S"),
            said("user: b?", "assistant: B.", "user: c?", "assistant: C."),
            said("user: d?", "assistant: D.", trained="FF"),
        ]
    )


@pytest.fixture
def uneven(said, make_result) -> Path:
    """Two conversations that LLaMA-Factory cannot express, and one that it can."""
    return make_result(
        [
            said("user: a?", "assistant: A."),
            said("assistant: b?", "user: b?", "assistant: B."),
            said("user: c?", "assistant: C", "user: d", "assistant: D", trained="TTFT"),
        ],
        name="uneven",
    )


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("kind", ["pt", "sft"])
def test_an_export_is_whole_and_its_manifest_holds_the_contract(
    trainer, kind, chats, make_result, tmp_path
):
    folder = chats if kind == "sft" else make_result([{"text": "one"}], name="texts", pt=True)
    before = tree(folder)
    done = export(folder, trainer, tmp_path / "out")
    assert tree(folder) == before
    assert find_finished(tmp_path / "out").manifest == done.manifest
    validator("export").validate(done.manifest)
    for file in done.manifest["files"]:
        content = (tmp_path / "out" / file["path"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (
            file["bytes"],
            file["sha256"],
        )
    assert {file["path"] for file in done.manifest["files"]} | {"manifest.json"} == set(
        tree(tmp_path / "out")
    )
    records = done.manifest["records"]
    assert records["read"] == records["written"] + sum(records["left_out"].values())
    assert len(rows_of(tmp_path / "out", done.manifest)) == records["written"]
    assert done.use


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_same_bytes_every_time_and_from_either_format_of_records(
    trainer, said, make_result, tmp_path
):
    rows = [
        said("user: a?", "assistant: A.", "user: thanks"),
        said("user: b?", "assistant: B", trained="FF"),
    ]
    made = [
        make_result(rows, name=name, records=form)
        for name, form in (("p", "parquet"), ("j", "jsonl"))
    ]
    outs = [tmp_path / f"out{number}" for number in range(3)]
    for folder, out in zip([made[0], made[0], made[1]], outs, strict=True):
        export(folder, trainer, out, ExportOptions(name="chats"))
    assert tree(outs[0]) == tree(outs[1])
    data = [{k: v for k, v in tree(out).items() if k != "manifest.json"} for out in outs]
    assert data[0] == data[2]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_texts_are_read_where_they_are(trainer, make_result, tmp_path):
    folder = make_result([{"text": "one"}, {"text": "two"}], pt=True)
    done = export(folder, trainer, tmp_path / "deep" / "out")
    assert done.manifest["data"] == ["../../result/records/part-00000.parquet"]
    assert (tmp_path / "deep" / "out" / done.manifest["data"][0]).is_file()
    assert not (tmp_path / "deep" / "out" / "data").exists()


@pytest.mark.parametrize("trainer", TRAINERS)
def test_texts_in_jsonl_are_written_anew(trainer, make_result, tmp_path):
    folder = make_result([{"text": "one"}, {"text": "two"}], pt=True, records="jsonl")
    done = export(folder, trainer, tmp_path / "out")
    assert done.manifest["data"] == ["data/train-00000.parquet"]
    assert rows_of(tmp_path / "out", done.manifest) == [{"text": "one"}, {"text": "two"}]


@pytest.mark.parametrize("trainer", ["llamafactory", "torchtune"])
def test_records_that_fit_as_they_are_are_read_where_they_are(trainer, said, make_result, tmp_path):
    folder = make_result([said("user: a?", "assistant: A.", system="S")])
    done = export(folder, trainer, tmp_path / "out")
    assert done.manifest["data"] == ["../result/records/part-00000.parquet"]
    assert export(folder, trainer, tmp_path / "out").already_done


@pytest.mark.parametrize("name", ["re\nsult", "result[1]", "a*", "x::y"])
def test_a_place_that_a_config_cannot_spell_is_not_named(name, said, make_result, tmp_path):
    odd = make_result([said("user: a?", "assistant: A.")]).rename(tmp_path / name)
    done = export(odd, "llamafactory", tmp_path / "out")
    assert done.manifest["data"] == ["data/train-00000.parquet"]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_destination_that_no_trainer_could_read_from_is_refused(trainer, chats, tmp_path):
    for name in ("out[1]", "out*/x", "a?", "a::b"):
        with pytest.raises(OutputError, match="reads its path as a pattern"):
            export(chats, trainer, tmp_path / name)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "result", tmp_path / "result.jsonl"]


def test_parts_are_cut_by_size_and_keep_the_order(said, make_result, tmp_path):
    rows = [said(f"user: {n}?", f"assistant: {n}!") for n in range(2_500)]
    done = export(make_result(rows), "axolotl", tmp_path / "out", ExportOptions(part_bytes=1))
    assert done.manifest["data"] == [f"data/train-0000{n}.parquet" for n in range(3)]
    firsts = [row["messages"][0]["content"] for row in rows_of(tmp_path / "out", done.manifest)]
    assert firsts == [f"{n}?" for n in range(2_500)]


def test_other_tokens_are_not_trained_on_without_a_word(uneven, tmp_path):
    with pytest.raises(ConversionError) as refused:
        export(uneven, "llamafactory", tmp_path / "out")
    said = str(refused.value)
    assert "masks 1: the trainer trains on other messages" in said
    assert "opening 1: it begins with the assistant" in said
    assert "`lossy`" in said
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


def test_with_losses_there_is_a_note(uneven, tmp_path):
    done = export(uneven, "llamafactory", tmp_path / "out", ExportOptions(lossy=True))
    assert done.manifest["records"] == {
        "read": 3,
        "written": 3,
        "left_out": {},
        "changed": {"masks": 1, "opening": 1},
    }
    assert [note.split(":")[0] for note in done.manifest["notes"]] == ["1 records", "1 records"]
    chars = done.manifest["trained_chars"]
    assert chars["records"] != chars["trainer"]


def test_without_need_lossy_changes_nothing_but_the_option(chats, tmp_path):
    plain = export(chats, "swift", tmp_path / "plain")
    lossy = export(chats, "swift", tmp_path / "lossy", ExportOptions(lossy=True))
    assert plain.manifest["files"] == lossy.manifest["files"]
    assert lossy.manifest["notes"] == []


def test_no_row_at_all_is_an_error(said, make_result, tmp_path):
    folder = make_result([said("user: a?", "assistant: A.", trained="FF")])
    with pytest.raises(ConversionError, match=r"no record can be written for swift: untrained 1"):
        export(folder, "swift", tmp_path / "out")


def test_a_folder_that_is_no_result_is_refused(chats, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConversionError, match="no finished result"):
        export(tmp_path / "empty", "trl", tmp_path / "out")
    with pytest.raises(ConversionError, match="no finished result"):
        export(chats / "records", "trl", tmp_path / "out")
    done = export(chats, "trl", tmp_path / "export")
    with pytest.raises(ConversionError, match="no finished result"):
        export(done.out, "trl", tmp_path / "out")


def test_an_irrelevant_result_is_refused(tmp_path):
    raw = tmp_path / "raw.jsonl"
    raw.write_text('{"a": 1}\n')
    source = open_source(str(raw))
    with stage_irrelevant(source, tmp_path / "result", "numbers only", ConvertOptions()) as staged:
        staged.commit({}, {})
    with pytest.raises(ConversionError, match="holds no records: irrelevant: numbers only"):
        export(tmp_path / "result", "trl", tmp_path / "out")


def test_a_result_where_all_was_filtered_is_refused(said, make_result, tmp_path):
    folder = make_result([said("user: a?", "assistant: A.")])
    shutil.rmtree(folder / "records")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = [one for one in manifest["files"] if "records" not in one["path"]]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "records").mkdir()
    with pytest.raises(ConversionError, match="holds no records"):
        export(folder, "trl", tmp_path / "out")


def test_the_same_export_again_is_nothing_to_do(chats, tmp_path):
    first = export(chats, "trl", tmp_path / "out")
    again = export(chats, "trl", tmp_path / "out")
    assert (again.already_done, again.manifest, again.use) == (True, first.manifest, first.use)


def test_another_export_is_replaced_only_when_asked(chats, tmp_path):
    export(chats, "trl", tmp_path / "out")
    with pytest.raises(OutputError, match=r'trainer.name is "trl" \(requested: "swift"\)'):
        export(chats, "swift", tmp_path / "out")
    done = export(chats, "swift", tmp_path / "out", ExportOptions(overwrite=True))
    assert not (tmp_path / "out" / "trl.yaml").exists()
    assert done.manifest["trainer"]["name"] == "swift"


def test_records_that_lie_elsewhere_now_are_another_export(said, make_result, tmp_path):
    folder = make_result([said("user: a?", "assistant: A.")])
    export(folder, "torchtune", tmp_path / "out")
    (tmp_path / "moved").mkdir()
    moved = folder.rename(tmp_path / "moved" / folder.name)
    with pytest.raises(OutputError, match="the records of another folder"):
        export(moved, "torchtune", tmp_path / "out")


def test_results_are_never_replaced(chats, make_result, tmp_path):
    other = make_result([{"text": "one"}], name="other", pt=True)
    force = ExportOptions(overwrite=True)
    before = tree(chats), tree(other)
    for out in (chats, chats / "export", tmp_path, other):
        with pytest.raises(OutputError):
            export(chats, "trl", out, force)
    with (other / "report.md").open("w") as more:
        more.write("damaged results are results too")
    next((other / "records").iterdir()).write_bytes(b"")
    before = tree(chats), tree(other)
    with pytest.raises(OutputError, match="holds a result that is not an export"):
        export(chats, "trl", other, force)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="holds files that ingot did not write"):
        export(chats, "trl", foreign, force)
    assert (tree(chats), tree(other)) == before


def test_the_split_names_files_and_entries(chats, tmp_path):
    options = ExportOptions(split="test")
    told = "all 2 records are written as test: `split` only names the split, it selects no records"
    assert export(chats, "trl", tmp_path / "trl", options).notes == (told,)
    assert export(chats, "trl", tmp_path / "trl", options).notes[0] == told
    assert (
        "with trl.yaml it trains on this data"
        in export(chats, "trl", tmp_path / "trl", options).use[-1]
    )
    done = {name: export(chats, name, tmp_path / name, options) for name in TRAINERS}
    assert done["axolotl"].manifest["data"] == ["data/test-00000.parquet"]
    info = json.loads((tmp_path / "llamafactory" / "dataset_info.json").read_text())
    assert list(info) == ["result_test"]
    texts = {name: (tmp_path / name / f"{name}.yaml").read_text() for name in TRAINERS}
    assert 'eval_dataset: "result_test"' in texts["llamafactory"]
    assert "val_dataset:" in texts["swift"]
    assert "test_datasets:" in texts["axolotl"]
    assert "dataset_val:" in texts["torchtune"]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("raw", "raw"),
        ("-alpaca", "alpaca"),
        ("2024", "2024"),
        ("a b,c", "a_b_c"),
        ("(-x)", "x"),
        ("---", "tokens"),
    ],
)
def test_a_data_set_is_named_after_the_folder_of_the_result(
    folder, name, said, make_result, tmp_path
):
    result = make_result([said("user: a?", "assistant: A.")]).rename(tmp_path / folder)
    done = export(result, "llamafactory", tmp_path / "out")
    assert done.manifest["options"]["name"] == name
    assert list(json.loads((tmp_path / "out" / "dataset_info.json").read_text())) == [name]


def test_a_data_set_is_named_as_asked_and_never_like_one_of_the_trainer(chats, tmp_path):
    options = ExportOptions(name="self-cognition")
    done = export(chats, "swift", tmp_path / "out", options)
    (entry,) = json.loads((tmp_path / "out" / "dataset_info.json").read_text())
    assert entry["dataset_name"] == "self-cognition_ingot"
    assert export(chats, "swift", tmp_path / "out", options).use == done.use
    with pytest.raises(OutputError, match=r"options.name is"):
        export(chats, "swift", tmp_path / "out")


def test_a_long_export_says_how_far_it_is(said, make_result, tmp_path):
    folder = make_result([said(f"user: {n}?", f"assistant: {n}!") for n in range(1_001)])
    seen = []
    export(folder, "swift", tmp_path / "out", progress=seen.append)
    assert [(one.stage, one.records, one.shards_done) for one in seen] == [
        *(("check", 0, 0), ("check", 0, 1)),
        *(("count", 0, 0), ("count", 1_000, 0), ("count", 1_001, 1)),
        *(("write", 0, 0), ("write", 1_000, 0), ("write", 1_001, 1)),
    ]
