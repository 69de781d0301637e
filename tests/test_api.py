"""The Python API: what its functions give is what the commands give."""

import json
import pickle
from datetime import date
from pathlib import Path

import datasets
import pandas as pd
import pyarrow as pa
import pytest

import ingot
from ingot.converters.convert.shard import shard_key
from ingot.converters.errors import (
    ConversionError,
    CountsReviewNeeded,
    DriftError,
    MappingError,
    ModelError,
    NoTokensError,
    ReviewNeeded,
    SourceError,
)
from ingot.converters.records import read_records
from ingot.converters.records.schema import PT_SCHEMA, SFT_SCHEMA
from ingot.frames import open_frame
from tests import command_line

ROOT = Path(__file__).parents[1]
EXAM = ROOT / "examples/zh_exam"
CHATS = ROOT / "examples/en_chats"
TOKENIZER = ROOT / "examples/tokenizer/tokenizer.json"
TEXT = {"version": 2, "text": "body"}
ROWS = [{"body": f"text {number}", "tag": number % 3} for number in range(10_000)]


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def content(folder: Path) -> dict[str, bytes]:
    """The files of a result but for run.json, which holds times and places."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "run.json")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.more
def test_a_data_set_from_proposal_to_records(tmp_path):
    proposal = ingot.propose(CHATS)
    assert (proposal.decision, proposal.mapper, proposal.passes) == ("sft", "rules", True)
    assert ingot.check(CHATS, proposal).problems == ()
    result = ingot.convert(CHATS, proposal, tmp_path / "out")
    records = ingot.load(result)
    assert len(records) == result.manifest["rows"]["converted"] == 24
    assert records[0]["messages"][-1]["role"] == "assistant"
    assert ingot.convert(CHATS, proposal, tmp_path / "out").already_done
    assert result.first_rejects == ("sharegpt_clean_0423.json row 24: no_assistant",)


@pytest.mark.more
def test_a_conversion_is_that_of_the_command(tmp_path):
    ingot.convert(EXAM, ingot.propose(EXAM).mapping, tmp_path / "api")
    (tmp_path / "mapping.json").write_text(json.dumps(ingot.propose(EXAM).mapping))
    command_line.ingot("convert", tmp_path / "mapping.json", EXAM, "--out", tmp_path / "cli")
    assert content(tmp_path / "api") == content(tmp_path / "cli")


@pytest.mark.more
def test_gates_and_evidence_are_those_of_a_dry_run(tmp_path):
    words = ("run", CHATS, "--out", tmp_path / "x", "--dry-run", "--json")
    done = command_line.ingot(*words)
    told, proposal = json.loads(done.stdout), ingot.propose(CHATS)
    assert [one["name"] for one in told["gates"]] == [one.name for one in proposal.gates]
    assert [one["figure"] for one in told["gates"]] == [one.figure for one in proposal.gates]
    assert [one["choice"] for one in told["evidence"]] == [one.choice for one in proposal.evidence]
    assert told["mapping"] == proposal.mapping


def test_a_notebook_shows_a_proposal_and_runs_nothing_of_the_data():
    rows = [{"question": f"<script>{n}</script>?", "answer": "yes & no"} for n in range(50)]
    shown = ingot.propose(pa.Table.from_pylist(rows), mode="sft")._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "confidence" in shown


def test_what_cannot_be_mapped_is_a_proposal_without_a_mapping():
    proposal = ingot.propose(pa.table({"x": [0.5, 1.5, 2.5] * 30}))
    assert proposal.decision in ("irrelevant", "unmappable")
    assert not proposal.passes
    assert proposal.preview is None
    assert "confidence" in proposal._repr_html_()


@pytest.mark.more
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_loaded_records_have_exact_features(form, tmp_path):
    options = ingot.ConvertOptions(records=form)
    chats = ingot.convert(EXAM, ingot.propose(EXAM).mapping, tmp_path / "chats", options)
    texts = ingot.convert(EXAM, {"version": 2, "text": "stem"}, tmp_path / "texts", options)
    for result, schema in ((chats, SFT_SCHEMA), (texts, PT_SCHEMA)):
        whole, stream = ingot.load(result), ingot.load(result.out, streaming=True)
        assert isinstance(stream, datasets.IterableDataset)
        assert whole.features == stream.features == datasets.Features.from_arrow_schema(schema)
        written = [{"tools": None, **one} for one in read_records(Path(result.out) / "records")]
        keys = schema.names
        assert list(whole) == [{key: one[key] for key in keys} for one in written]
        assert list(stream) == list(whole)


def frames() -> dict[str, object]:
    table = pa.Table.from_pylist(ROWS)
    return {
        "arrow": table,
        "chunks": pa.concat_tables([table.slice(0, 7), table.slice(7)]),
        "batches": table.to_reader(),
        "pandas": pd.DataFrame(ROWS),
        "dataset": datasets.Dataset.from_list(ROWS),
        "stream": datasets.Dataset.from_list(ROWS).to_iterable_dataset(),
    }


@pytest.mark.more
@pytest.mark.parametrize("kind", sorted(frames()))
def test_a_table_in_memory_is_a_source(kind, tmp_path):
    result = ingot.convert(frames()[kind], TEXT, tmp_path / "out")
    assert result.manifest["rows"] == {
        **dict.fromkeys(("read", "converted"), 10_000),
        **dict.fromkeys(("rejected", "filtered"), 0),
    }
    assert [one["text"] for one in ingot.load(result)] == [one["body"] for one in ROWS]
    (entry,) = result.manifest["inputs"]
    assert entry["name"] == "table.arrow"
    again = frames()[kind]
    assert ingot.convert(again, TEXT, tmp_path / "out").already_done
    names = [tmp_path.name, "/tmp", "ingot-"]
    assert not any(name in (tmp_path / "out/run.json").read_text() for name in names)


@pytest.mark.more
def test_equal_tables_give_equal_bytes_and_other_rows_another_result(tmp_path):
    equal = ("arrow", "batches", "dataset")
    for kind in equal:
        ingot.convert(frames()[kind], TEXT, tmp_path / kind)
    assert len({tuple(content(tmp_path / kind).items()) for kind in equal}) == 1
    other = pa.Table.from_pylist([*ROWS[:-1], {"body": "text 9998", "tag": 0}])  # of equal size
    with pytest.raises(ingot.IngotError, match="other content"):
        ingot.convert(other, TEXT, tmp_path / "arrow")


@pytest.mark.more
def test_a_polars_frame_gives_the_records_of_the_arrow_table(tmp_path):
    """Also where it has columns of lists, structs, categories, dates and nulls."""
    rows = [
        {
            "body": f"text {n}" if n % 5 else None,
            "tags": [f"tag {n % 3}"] * (n % 4),
            "of": {"lang": "en", "n": n},
            "kind": ("a", "b")[n % 2],
            "day": date(2024, 1, 1 + n % 28),
        }
        for n in range(9_000)
    ]
    polars = pytest.importorskip("polars", reason="polars is not installed")
    table = pa.Table.from_pylist(rows)
    frame = polars.DataFrame(rows).with_columns(polars.col("kind").cast(polars.Categorical))
    mapping = {
        "version": 2,
        "text": ["body", "tags[*]", "of.lang", "kind"],
        "meta": {"timestamp": "day", "original_id": "of.n"},
    }
    made = []
    for source in (table, frame, frame.rechunk(), polars.concat([frame[:10], frame[10:]])):
        rejects: list[object] = []
        made.append((list(ingot.records(source, mapping, rejects=rejects)), rejects))
    assert all(one == made[0] for one in made[1:])
    records, rejects = made[0]
    assert len(records) == 9_000
    assert rejects == []
    assert records[1]["meta"]["original_id"] == "1"
    result = ingot.convert(frame, mapping, tmp_path / "out")
    assert list(read_records(Path(result.out) / "records")) == records


def test_a_killed_conversion_of_a_table_goes_on(tmp_path):
    """The shards of a frame are known by its content: a temporary file has another place."""
    keys = []
    for _ in range(2):
        with open_frame(frames()["arrow"]) as source:
            keys.append((source.location, shard_key(source, source.files)))
    assert keys[0] == keys[1]
    assert keys[0][1] is not None


def test_an_index_with_a_name_is_a_column_of_a_frame():
    frame = pd.DataFrame(ROWS)
    for given in (frame[frame["tag"] == 0], frame.set_index("tag")):
        with open_frame(given) as source:
            first = next(source.batches()).values[0]
        assert first == {"body": "text 0", "tag": 0}


@pytest.mark.more
def test_records_without_a_folder(tmp_path):
    mapping = ingot.propose(EXAM).mapping
    kept: list[object] = []
    told: list[object] = []
    records = list(ingot.records(EXAM, mapping, rejects=kept))
    ingot.convert(EXAM, mapping, tmp_path / "out", ingot.ConvertOptions(records="jsonl"))
    assert records == list(read_records(tmp_path / "out/records"))
    assert [list(one) for one in records] == [
        list(one) for one in read_records(tmp_path / "out/records")
    ]
    assert [(one.row, one.reason) for one in kept] == [(33, "no_assistant")]
    assert next(ingot.records(EXAM, mapping, rejects=told.append)) == records[0]
    assert told == kept
    with pytest.raises(TypeError, match="rejects"):
        ingot.records(EXAM, mapping)


@pytest.mark.more
def test_records_of_groups_and_of_columns_are_those_of_the_folder(tmp_path):
    rows = [
        {"chat": n // 4, "role": ("user", "assistant")[n % 2], "say": f"{n}"} for n in range(99)
    ]
    group = {
        "version": 2,
        "group": {"by": ["chat"]},
        "messages": [{"each": "$[*]", "role": {"path": "role"}, "content": "say"}],
    }
    for mapping, source in ((group, pa.Table.from_pylist(rows)), (TEXT, frames()["arrow"])):
        rejects: list[object] = []
        records = list(ingot.records(source, mapping, rejects=rejects))
        result = ingot.convert(source, mapping, tmp_path / str(len(records)))
        assert records == list(read_records(Path(result.out) / "records"))
        assert len(rejects) == sum(result.manifest["rejects"].values())


@pytest.mark.more
def test_tokens_of_a_result_and_of_texts(tmp_path):
    result = ingot.convert(EXAM, ingot.propose(EXAM).mapping, tmp_path / "out")
    heard: list[object] = []
    of_result = ingot.tokens(result, TOKENIZER, tmp_path / "a/exam", progress=heard.append)
    of_folder = ingot.tokens(tmp_path / "out/records", TOKENIZER, tmp_path / "b/exam")
    assert of_result.documents == of_folder.documents == 41
    assert (tmp_path / "a/exam.bin").read_bytes() == (tmp_path / "b/exam.bin").read_bytes()
    assert heard


def test_a_review_of_files_and_documents(tmp_path):
    old, new = {"version": 2, "text": "stem"}, {"version": 2, "text": "nothing"}
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for file, one in zip(files, (old, new), strict=True):
        file.write_text(json.dumps(one))
    found = ingot.review(old, new, source=EXAM)
    assert found["verdict"] == ingot.review(*files, source=EXAM)["verdict"] == "block"
    assert ingot.review(old, old, source=EXAM)["verdict"] == "pass"
    assert str(tmp_path) not in json.dumps(found)


def test_a_mapping_may_be_a_file(tmp_path):
    file = tmp_path / "mapping.json"
    file.write_text('{"version": 2, "text": "stem"}', encoding="utf-8")
    assert ingot.check(EXAM, file).records == 42


def test_what_is_wrong_is_said(tmp_path, monkeypatch):
    with pytest.raises(MappingError, match="text") as wrong:
        ingot.convert(EXAM, {"version": 2, "text": 5}, tmp_path / "out")
    assert wrong.value.problems[0].pointer == "/text"
    with pytest.raises(SourceError) as gone:
        ingot.propose("no/such/folder")
    assert (gone.value.where, gone.value.problem) == ("no/such/folder", "no such file or folder")
    with pytest.raises(ConversionError, match="gone"):
        ingot.convert(EXAM, {"version": 2, "text": "gone"}, tmp_path / "out")
    with pytest.raises(ConversionError, match="no finished result"):
        ingot.load(tmp_path)
    with pytest.raises(ModelError, match="no endpoint is configured"):
        ingot.propose(EXAM, model="small")
    monkeypatch.setattr("ingot.converters.errors.find_spec", lambda _: None)
    with pytest.raises(SourceError) as lacks:
        ingot.load(tmp_path)
    assert lacks.value.hint == 'pip install "ingot[hf]"'


@pytest.mark.more
def test_what_needs_a_person_is_not_converted_unseen(tmp_path):
    rows = [
        {"k": n, "c1": f"The tide of day {n} turns at six and leaves the harbour dry until noon.",
         "c2": f"A storm of {n} days has taken the sand, and the ferry waits behind the wall."}
        for n in range(40)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    proposal = ingot.propose(table)
    assert not proposal.passes
    for convert in (
        lambda given: ingot.convert(table, given, tmp_path / "out"),
        lambda given: list(ingot.records(table, given, rejects=[])),
    ):
        with pytest.raises(ReviewNeeded, match="needs a person: confidence"):
            convert(proposal)
        convert(proposal.mapping)
    assert proposal.alternatives


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"version": 2}, "the source comes first"),
        (5, "is not a source"),
        (pa.table({"x": pa.array([], pa.string())}), "holds no row"),
        (pd.DataFrame({"x": ["a", 5, b"\xff"]}), "give every column one type"),
    ],
)
def test_what_is_no_source_is_an_error(source, said):
    with pytest.raises(SourceError, match=said):
        ingot.propose(source)


@pytest.mark.more
def test_data_that_changed_is_not_converted(tmp_path):
    rows = [{"question": f"What is {n} plus one?", "answer": f"It is {n + 1}."} for n in range(99)]
    proposal = ingot.propose(pa.Table.from_pylist(rows))
    changed = pa.Table.from_pylist([{**one, "answer": [one["answer"]]} for one in rows])
    with pytest.raises(DriftError):
        ingot.convert(changed, proposal, tmp_path / "out")
    with pytest.raises(DriftError):
        next(ingot.records(changed, proposal, rejects=[]))


@pytest.mark.more
def test_nothing_is_printed_and_progress_is_heard(tmp_path, capfd):
    seen: list[int] = []
    mapping = ingot.propose(EXAM).mapping
    result = ingot.convert(
        EXAM, mapping, tmp_path / "out", progress=lambda one: seen.append(one.rows)
    )
    ingot.load(result)
    ingot.tokens(result, TOKENIZER, tmp_path / "tokens/exam")
    ingot.review(mapping, mapping)
    assert capfd.readouterr() == ("", "")
    assert seen[-1] == 42


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="no attribute"):
        ingot.nothing  # noqa: B018


@pytest.mark.more
def test_counts_of_all_rows_are_raised_and_approved(tmp_path: Path) -> None:
    rows = [{"question": f"What is {n}?", "answer": f"It is number {n}."} for n in range(3000)]
    rows[1501]["question"] = "<image>\nWhat is it?"
    raw = tmp_path / "raw.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    proposal = ingot.propose(raw)
    assert proposal.passes
    with pytest.raises(CountsReviewNeeded) as stopped:
        ingot.convert(raw, proposal, tmp_path / "out")
    assert stopped.value.counts == {"media": 1}
    assert pickle.loads(pickle.dumps(stopped.value)).counts == {"media": 1}
    done = ingot.convert(raw, proposal, tmp_path / "out", approved=stopped.value.counts)
    assert done.run["resumed"]
    assert done.manifest["warnings"]["signs"]["media"]["row"] == 1501


def test_a_tokenizer_that_refuses_every_record_is_an_error_of_its_own(tmp_path):
    from tokenizers import Tokenizer, models

    tokenizer, out = tmp_path / "tokenizer.json", tmp_path / "out"
    empty = Tokenizer(models.WordLevel({"<|endoftext|>": 0}))
    empty.add_special_tokens(["<|endoftext|>"])
    empty.save(str(tokenizer))
    source = tmp_path / "raw.jsonl"
    source.write_text("".join(f'{{"text": "Text number {n} is here."}}\n' for n in range(20)))
    options = ingot.ConvertOptions(tokenizer=tokenizer)
    with pytest.raises(NoTokensError) as caught:
        ingot.convert(source, {"version": 2, "text": "text"}, out, options)
    assert caught.value.where == str(out)
    assert (
        caught.value.hint
        == f"the tokenizer {tokenizer} refuses or drops every record: name another"
    )


def test_a_mapping_that_does_not_fit_names_a_command_only_for_files(tmp_path):
    table = pa.table({"text": [f"Text number {n} is here." for n in range(20)]})
    mapping = {"version": 2, "text": "nope"}
    with pytest.raises(ConversionError) as caught:
        ingot.convert(table, mapping, tmp_path / "out")
    assert caught.value.hint == "`check` lists every path with its rows"
    file, source = tmp_path / "my map.json", tmp_path / "raw.jsonl"
    file.write_text(json.dumps(mapping))
    source.write_text("".join(f'{{"text": "Text number {n} is here."}}\n' for n in range(20)))
    with pytest.raises(ConversionError) as caught:
        ingot.convert(source, file, tmp_path / "out")
    assert caught.value.hint == f"ingot check '{file}' {source} shows more"
