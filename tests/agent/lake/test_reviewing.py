"""What waits in a lake: shown as it would convert, approved and rejected as files."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.agent.lake.lake_order import LakeOrder
from ingot.agent.lake.review_queue import (
    APPROVED,
    approve,
    find_data_sets,
    known_order,
    load_proposal,
    proposal_file,
    reject,
    try_mapping,
    waiting_sets,
)
from ingot.cli.app import app
from ingot.converters.errors import ConversionError, MappingError, OutputError, SourceError
from ingot.converters.mapping.bind import read_tree
from tests.agent.documents import document

NOUNS = ("river", "stone", "cloud", "paper", "light", "green", "metal", "ocean", "valley")
HOW = ("--mapper", "rules", "--yes", "--min-confidence", "0.8", "--records", "jsonl", "--jobs", "1")


def words(seed: int, count: int) -> str:
    return " ".join(NOUNS[(seed * 7 + n * n + n * seed) % len(NOUNS)] for n in range(count))


def vague(first: int) -> list[dict[str, Any]]:
    """Rows of which the rules do not know enough."""
    return [
        {"id": f"r{n}", "c1": f"{n} {words(2 * n, 9)}.", "c2": f"{n} {words(2 * n + 1, 19)}."}
        for n in range(first, first + 12)
    ]


RAW = {
    "same": vague(3),
    "vague": vague(0),
    "odd": [
        {"id": n, "prompt": f"What is {n}?", "rejected": f"it is {n} or so"} for n in range(20)
    ],
    "void": [{"id": n, "rejected": f"it is {n} or more", "m": f"Or {n}?"} for n in range(20)],
    "fine": [{"question": f"What is {n}?", "answer": f"It is the number {n}."} for n in range(20)],
}


def lake_run(root: Path, *more: str) -> Any:
    words = ["lake", "run", str(root / "raw"), "--out", str(root / "lake"), "--json", *HOW, *more]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def statuses(report: Any) -> dict[str, str]:
    return {one["name"]: one["status"] for one in report["sets"]}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake after its first run, and a copy of it."""
    root = tmp_path_factory.mktemp("lakes")
    for name, rows in RAW.items():
        (root / "raw" / name).mkdir(parents=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (root / "raw" / name / "set.jsonl").write_text(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INGOT_HOME", str(root / "home"))
        report = lake_run(root)
    waits = dict.fromkeys(("odd", "same", "vague", "void"), "waiting")
    assert statuses(report) == {"fine": "converted", **waits}
    shutil.copytree(root / "lake", root / "kept")
    return root


@pytest.fixture
def lake(base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The lake as it was, at the same place."""
    monkeypatch.setenv("INGOT_HOME", str(base / "home"))
    shutil.rmtree(base / "lake")
    shutil.copytree(base / "kept", base / "lake")
    yield base / "lake"
    (base / "raw" / "odd" / "more.jsonl").unlink(missing_ok=True)


@pytest.fixture
def order(lake: Path) -> LakeOrder:
    return known_order(lake)


def named(order: LakeOrder, name: str) -> Any:
    return next(one for one in waiting_sets(order, rejected=True) if one.name == name)


@pytest.mark.more
def test_the_order_of_the_last_run(lake: Path, base: Path) -> None:
    order = known_order(lake)
    assert (order.root, order.out) == (str(base / "raw"), lake)
    assert order.mappings == lake / "mappings"
    assert known_order(lake, base / "other").mappings == base / "other"


@pytest.mark.parametrize("name", ["raw", "nowhere", "raw/fine"])
def test_what_is_no_lake(base: Path, name: str) -> None:
    with pytest.raises(OutputError, match="is not the folder of a lake"):
        known_order(base / name)
    assert not (base / name / ".ingot-lake").exists()


def test_what_waits_is_listed_with_the_most_confident_first(order: LakeOrder) -> None:
    assert [one.name for one in waiting_sets(order)] == ["same", "vague", "odd", "void"]


@pytest.mark.more
def test_what_is_decided_is_what_the_next_runs_do(order: LakeOrder, base: Path) -> None:
    """Edited and approved, approved as nothing, rejected until files change or approved yet."""
    file, sets = proposal_file(order, "vague"), find_data_sets(order)
    file.write_text(json.dumps({**json.loads(file.read_text()), "text": "c1"}))
    assert load_proposal(order, sets["vague"]).mapping.outer.text.path.text == "c1"
    for name in ("vague", "void"):
        approve(order, named(order, name))
    for name in ("odd", "same"):
        reject(order, named(order, name), sets[name])
    assert waiting_sets(order) == []
    report = lake_run(base)
    rejected = {"odd": "rejected", "same": "rejected"}
    done = {"fine": "converted", "vague": "converted", "void": "no_training_text"}
    assert statuses(report) == done | rejected
    assert sorted(report["worked"]) == ["vague", "void"]
    part = next((order.result("vague") / "records").iterdir())
    assert json.loads(part.read_text().splitlines()[0])["text"] == RAW["vague"][0]["c1"]
    assert proposal_file(order, "same").is_file()
    approve(order, named(order, "same"))
    (base / "raw" / "odd" / "more.jsonl").write_text(json.dumps(RAW["odd"][0]) + "\n")
    report = lake_run(base)
    assert statuses(report) == done | {"odd": "waiting", "same": "converted"}
    assert sorted(report["worked"]) == ["odd", "same"]


def test_an_approved_mapping_is_the_proposed_one(order: LakeOrder) -> None:
    before = proposal_file(order, "vague").read_text()
    file = approve(order, named(order, "vague"))
    assert file == order.mappings / "vague.json"
    approved, proposed = json.loads(file.read_text()), json.loads(before)
    assert approved["provenance"].pop("reviewed") is True
    assert approved == proposed
    assert not proposal_file(order, "vague").parent.exists()
    assert not order.run_folder("vague").exists()
    assert [one.name for one in waiting_sets(order)] == ["same", "odd", "void"]
    assert not order.result("vague").exists()  # nothing is converted here


def test_what_cannot_be_approved(order: LakeOrder) -> None:
    facts = named(order, "vague")
    file = proposal_file(order, "vague")
    file.write_text("{")
    with pytest.raises(MappingError, match=r"vague\.proposal"):
        approve(order, facts)
    file.unlink()
    with pytest.raises(ConversionError, match="no mapping was proposed"):
        approve(order, facts)


def test_what_is_shown_is_what_waits(order: LakeOrder) -> None:
    sets = find_data_sets(order)
    shown = load_proposal(order, sets["vague"])
    assert shown.state["proposal"].mapper == "rules"
    assert document(shown.mapping) == json.loads(proposal_file(order, "vague").read_text())
    shutil.rmtree(order.run_folder("vague"))  # the memory is gone: the file is tried
    again = load_proposal(order, sets["vague"])
    assert document(again.mapping) == document(shown.mapping)
    assert again.state["check"].records == 12
    proposal_file(order, "vague").unlink()
    with pytest.raises(SourceError, match="holds no proposal"):
        load_proposal(order, sets["vague"])


def test_another_mapping_is_tried_on_the_rows(order: LakeOrder) -> None:
    data_set = find_data_sets(order)["vague"]
    taken = read_tree({"version": 2, "text": "c1"})
    made = try_mapping(order, data_set, taken, provenance={"edited": True})
    assert document(made.mapping)["text"] == "c1"
    assert set(document(made.mapping)["provenance"]) == {"edited", "fingerprint", "shape"}
    assert made.state["check"].records == 12
    with pytest.raises(MappingError):
        try_mapping(order, data_set, read_tree({"version": 2, "text": 7}))


@pytest.mark.more
def test_a_mapping_from_which_the_data_has_moved_is_shown_on_the_new_data(
    order: LakeOrder, base: Path
) -> None:
    file, raw = order.mapping("fine"), base / "raw" / "fine" / "set.jsonl"
    before = raw.read_text()
    try:
        raw.write_text(before.replace('"answer"', '"reply"'))
        assert statuses(lake_run(base))["fine"] == "waiting"
        facts = named(order, "fine")
        with pytest.raises(OutputError, match="is approved already"):
            approve(order, facts)
        data_set = find_data_sets(order)["fine"]
        shown = load_proposal(order, data_set)
        assert shown.moved
        assert shown.state["check"].drift
        was = document(shown.mapping)
        mended = read_tree(json.loads(json.dumps(was).replace('"answer"', '"reply"')))
        again = try_mapping(order, data_set, mended, provenance=was["provenance"])
        assert approve(order, facts, again.mapping) == file
        report = lake_run(base)
        assert (statuses(report)["fine"], report["worked"]) == ("converted", ["fine"])
    finally:
        raw.write_text(before)


def test_what_is_approved_wakes_others_of_its_shape(order: LakeOrder) -> None:
    approve(order, named(order, "vague"))
    kept = order.state.sets()
    assert kept["same"].key == ""
    assert kept["odd"].key != ""
    assert kept["vague"].facts.why == APPROVED


# --- the command without a terminal


def review(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["lake", "review", *words])
    return done.exit_code, done.stdout, done.stderr


def test_without_a_terminal_it_lists_and_ends_with_3(lake: Path) -> None:
    code, shown, said = review(str(lake))
    assert code == 3
    assert [line.split()[0] for line in shown.splitlines()[:4]] == ["same", "vague", "odd", "void"]
    assert f"error: {lake}: 4 data sets wait for a person" in said
    code, shown, said = review(str(lake), "--list")
    assert (code, said) == (0, "")


def test_the_list_for_programs(lake: Path) -> None:
    code, shown, _ = review(str(lake), "--list", "--json")
    found = json.loads(shown)["sets"]
    assert code == 0
    assert [one["name"] for one in found] == ["same", "vague", "odd", "void"]
    assert found[1]["proposal"] == str(lake / "sets" / "vague.proposal" / "mapping.json")
    assert "is below --min-confidence" in found[1]["why"]


@pytest.mark.more
def test_several_are_decided_by_name(lake: Path, base: Path) -> None:
    code, shown, said = review(
        str(lake), "--approve", "va*", "--approve", "same", "--reject", "odd", "--reject", "void"
    )
    assert code == 0
    assert shown.splitlines() == [
        f"same: approved: {lake}/mappings/same.json",
        f"vague: approved: {lake}/mappings/vague.json",
        "odd: rejected",
        "void: rejected",
    ]
    assert f"ingot lake run {base / 'raw'} --out {lake}" in said
    assert review(str(lake))[:2] == (0, "0 data sets\n")
    code, shown, _ = review(str(lake), "--approve", "odd", "--json")
    assert code == 0
    assert json.loads(shown)["sets"] == [{"name": "odd", "mapping": f"{lake}/mappings/odd.json"}]


@pytest.mark.more
def test_one_that_cannot_be_decided_does_not_stop_the_others(lake: Path) -> None:
    (lake / "sets" / "same.proposal" / "mapping.json").unlink()
    code, shown, said = review(str(lake), "--approve", "*")
    assert code == 1
    assert "same: no mapping was proposed" in said
    assert len(shown.splitlines()) == 3


@pytest.mark.more
def test_what_fails_a_gate_is_not_approved_by_name(lake: Path) -> None:
    proposal = lake / "sets" / "same.proposal" / "mapping.json"
    proposal.write_text(json.dumps({"version": 2, "text": {"path": "nowhere"}}))
    code, shown, said = review(str(lake), "--approve", "same", "--approve", "vague")
    assert code == 1
    assert "same: not approved, it does not pass: " in said
    assert shown == f"vague: approved: {lake}/mappings/vague.json\n"
    assert not (lake / "mappings" / "same.json").exists()


@pytest.mark.parametrize(
    "words", [("--approve", "nobody"), ("--approve", "vague", "--reject", "v*")]
)
def test_what_is_asked_wrongly(lake: Path, words: tuple[str, ...]) -> None:
    code, _, said = review(str(lake), *words)
    assert code == 2
    assert "vague" in said
    assert not (lake / "mappings" / "vague.json").exists()


@pytest.mark.more
def test_mappings_elsewhere(lake: Path, base: Path) -> None:
    """What a run was told of the folder is known to the reviews after it."""
    folder = base / "elsewhere"
    assert review(str(lake), "--mappings", str(folder), "--approve", "vague")[0] == 0
    assert (folder / "vague.json").is_file()
    shutil.rmtree(folder)
    known_order(lake).state.keep_note("mappings", str(folder), str)
    assert known_order(lake).mappings == folder


@pytest.mark.more
def test_mappings_in_a_repository_are_reviewed(
    lake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The folder of the mappings is one that `ingot review` works on."""
    folder = lake / "mappings"
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=no")

    def git(*words: str) -> None:
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "before")
    file = folder / "fine.json"
    file.write_text(file.read_text().replace('"content": "question"', '"content": "answer"'))
    review(str(lake), "--approve", "vague")
    git("add", ".")
    git("commit", "-m", "after")
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["review", "--base", "HEAD~1", "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 1  # a message takes its text from another place
    assert told["verdict"] == "block"
    assert sorted(one["path"] for one in told["mappings"]) == ["fine.json", "vague.json"]


@pytest.mark.more
def test_a_set_that_a_gate_on_all_rows_stops_is_approved_and_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    rows = [
        {"question": f"What is {n}?", "answer": f"It is the number {n} of many."}
        for n in range(3000)
    ]
    rows[1501]["question"] = "<image>\nWhat is it?"
    folder = tmp_path / "raw" / "fine"
    folder.mkdir(parents=True)
    (folder / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = lake_run(tmp_path)
    assert statuses(report) == {"fine": "waiting"}
    assert "set.jsonl row 1501" in report["sets"][0]["why"]
    order = known_order(tmp_path / "lake")
    (facts,) = waiting_sets(order)
    shown = load_proposal(order, find_data_sets(order)["fine"])
    approve(order, facts, shown.mapping)
    assert statuses(lake_run(tmp_path)) == {"fine": "converted"}
    run = json.loads((tmp_path / "lake" / "sets" / "fine" / "run.json").read_text())
    assert run["resumed"]
    made = json.loads((tmp_path / "lake" / "sets" / "fine" / "mapping.json").read_text())
    assert made["provenance"]["approved"] == {"media": 1}

    rows[2001]["question"] = "<image>\nWhat is it now?"  # more than was approved
    (folder / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert statuses(lake_run(tmp_path)) == {"fine": "waiting"}
    (facts,) = waiting_sets(order)
    shown = load_proposal(order, find_data_sets(order)["fine"])
    approve(order, facts, shown.mapping)
    assert statuses(lake_run(tmp_path)) == {"fine": "converted"}
