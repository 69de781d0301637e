"""`ingot criteo preprocess`: its options, what it says, its exit codes."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.cli.app import app

ROW = b"1\t2" + b"\t" * 11 + b"\t3" + b"\t68fd1e64" * 26 + b"\n"
OTHER = b"0\t7" + b"\t" * 11 + b"\t-4" + b"\t0000000a" * 26 + b"\n"


@dataclass
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Place:
    """The folder that a command runs in, with raw days."""

    def __init__(self, folder: Path, shown: pytest.CaptureFixture[str]) -> None:
        self.folder, self.raw, self._shown = folder, folder / "raw", shown
        self.write(day_0=ROW * 3 + OTHER, day_1=OTHER * 2, day_2=ROW)

    def write(self, **files: bytes) -> None:
        self.raw.mkdir(exist_ok=True)
        for path in self.raw.iterdir():
            path.unlink()
        for name, content in files.items():
            (self.raw / name.replace("__", ".")).write_bytes(content)

    def run(self, *words: str) -> Done:
        code = 0
        try:
            app(["criteo", "preprocess", *words], prog_name="ingot")
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Done(code, *self._shown.readouterr())

    def preprocess(self, *words: str, out: str = "out") -> Done:
        return self.run("--input-dir", "raw", "--out", out, *words)

    def fails(self, *words: str, out: str = "out", code: int = 1) -> str:
        """What the command says that fails; nothing is left of it."""
        done = self.preprocess(*words, out=out)
        assert (done.code, done.out) == (code, ""), done
        assert "Traceback" not in done.err
        return " ".join(done.err.split())

    def array(self, name: str, out: str = "out") -> Any:
        return np.load(self.folder / out / f"{name}.npy")

    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return Place(tmp_path, capsys)


@pytest.mark.more
def test_the_command_itself(place: Place) -> None:
    """In a process of its own, as people run it."""
    words = ["criteo", "preprocess", "--input-dir", "raw", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "ingot", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=place.folder,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "7 of 7 lines" in done.stdout
    assert place.array("day_0_sparse").shape == (4, 26)


def test_help_names_every_option(place: Place) -> None:
    done = place.run("--help")
    assert done.code == 0
    for option in (
        *("--input-dir", "--out", "--days", "--dense", "--frequency-threshold", "--vocab"),
        *("--unseen", "--shuffle-seed", "--no-shuffle", "--compat", "--strict", "--encode"),
        *("--threads", "--resume", "--no-resume", "--overwrite", "--json"),
    ):
        assert option in done.out
    assert "ln3|min2" in done.out
    assert "exact|torchrec_f32" in done.out


@pytest.mark.more
def test_a_run_and_the_same_again(place: Place) -> None:
    done = place.preprocess()
    assert done.code == 0, done.err
    for said in ("7 of 7 lines", "4 rows, 75.00% clicked", "shuffled", "52 distinct", "out"):
        assert said in done.out
    assert "1 dense values that are not finite" in done.out
    again = place.preprocess()
    assert again.code == 0
    assert "was there already" in again.out
    assert place.left() == ["out", "raw"]


@pytest.mark.more
def test_json(place: Place) -> None:
    done = place.preprocess("--json")
    assert done.json["stats"]["rows"] == 7
    assert done.json["manifest"]["rows"] == 7
    assert done.json["already_done"] is False
    assert done.json["out"].endswith("out")
    again = place.preprocess("--json").json
    assert again["already_done"] is True
    assert again["manifest"] == done.json["manifest"]


@pytest.mark.more
def test_options_reach_the_run(place: Place) -> None:
    place.preprocess("--no-shuffle", "--dense", "min2", "--frequency-threshold", "4")
    assert place.array("day_0_labels").ravel().tolist() == [1, 1, 1, 0]
    assert place.array("day_1_sparse").tolist() == [[1] * 26] * 2
    assert place.array("day_0_sparse").tolist() == [[2] * 26] * 3 + [[1] * 26]
    assert np.array_equal(place.array("day_1_dense")[0, [0, 12]], np.log(np.float32([13, 2])))
    told = json.loads((place.folder / "out/manifest.json").read_bytes())
    assert (told["shuffle_seed"], told["dense"], told["frequency_threshold"]) == (None, "min2", 4)
    more = ("--encode", "columns", "--threads", "2", "--shuffle-seed", "7", "--compat")
    assert place.preprocess(*more, "torchrec_f32", out="more").code == 0
    told = json.loads((place.folder / "more/run.json").read_bytes())
    assert (told["encode"], told["threads"]) == ("columns", 2)
    told = json.loads((place.folder / "more/manifest.json").read_bytes())
    assert (told["compat"], told["shuffle_seed"]) == ("torchrec_f32", 7)


@pytest.mark.more
@pytest.mark.parametrize(
    ("days", "parts"),
    [("0-1", [0, 1]), ("2", [2]), ("2,0", [0, 2]), ("0-2", [0, 1, 2]), ("1-1,1", [1])],
)
def test_days(place: Place, days: str, parts: list[int]) -> None:
    assert place.preprocess("--days", days).code == 0
    names = {path.name for path in (place.folder / "out").glob("*_labels.npy")}
    assert names == {f"day_{day}_labels.npy" for day in parts}
    told = json.loads((place.folder / "out/stats.json").read_bytes())
    assert [part["shuffled"] for part in told["parts"]] == [True] * (len(parts) - 1) + [False]


@pytest.mark.parametrize("days", ["", "x", "3-1", "1,", "-1", "0-", "1;2", "99999"])
def test_days_that_are_none(place: Place, days: str) -> None:
    said = place.fails("--days", days, code=2)
    assert "0-23 or 0,3,5-7" in said


@pytest.mark.more
def test_what_a_folder_has_beside_the_days_is_told(place: Place) -> None:
    (place.folder / "raw/day_00").write_bytes(b"")
    (place.folder / "raw/day_1.csv").write_bytes(b"")
    (place.folder / "raw/day_1").rename(place.folder / "raw/day_5")
    (place.folder / "raw/day_4").write_bytes(b"")
    said = " ".join(place.preprocess().out.split())
    assert "passed over: day_00, day_1.csv" in said
    assert "not there: day_1, day_3" in said
    assert "without a row: day_4" in said


def test_files_of_rejects_alone_show_the_first(place: Place) -> None:
    (place.folder / "raw/day_0").write_bytes(b"0,1,2\n" * 9)
    said = place.fails("--days", "0")
    assert "all 9 lines are rejects; day_0 line 1: not 40 columns" in said
    assert "1 columns: 0,1,2" in said


@pytest.mark.more
def test_replacing_spares_files_of_others(place: Place) -> None:
    assert place.preprocess("--days", "0").code == 0
    (place.folder / "out/model.pt").write_bytes(b"weights")
    done = place.preprocess("--overwrite")
    assert done.code == 1
    assert "not part of the result, such as model.pt" in " ".join(done.err.split())
    assert (place.folder / "out/model.pt").read_bytes() == b"weights"


def test_a_day_that_is_not_there(place: Place) -> None:
    assert "raw: holds no day_3" in place.fails("--days", "0-5")


def test_files_that_are_none_of_criteo(place: Place) -> None:
    place.write(notes__md=b"", day_0_dense__npy=b"", day_00=ROW)
    assert "raw: holds no Criteo files" in place.fails()
    assert "day_0 to day_23" in place.fails()


def test_no_folder(place: Place) -> None:
    done = place.run("--input-dir", "nowhere", "--out", "out")
    assert done.code == 1
    assert "nowhere: no such file or folder" in done.err
    assert place.left() == ["raw"]


@pytest.mark.more
def test_days_and_kaggle(place: Place) -> None:
    place.write(day_0=ROW, train__txt=ROW)
    assert "also train.txt" in place.fails()
    assert place.preprocess("--days", "0").code == 0


def test_a_day_twice(place: Place) -> None:
    place.write(day_0=ROW, day_0__gz=gzip.compress(ROW))
    assert "holds day_0 and day_0.gz" in place.fails()


@pytest.mark.more
def test_kaggle(place: Place) -> None:
    place.write(train__txt=ROW * 2, test__txt=ROW[2:])
    done = place.preprocess()
    assert done.code == 0
    assert "test" in done.out
    assert place.array("test_labels").tolist() == [[-1]]
    assert "shuffled" not in done.out


@pytest.mark.more
def test_empty_files(place: Place) -> None:
    place.write(day_0=b"", day_1=b"")
    assert "raw: no row can be written: the files are empty" in place.fails()
    assert place.left() == ["raw"]


@pytest.mark.more
def test_only_rejects(place: Place) -> None:
    place.write(day_0=b"\n\nabc\n")
    assert "all 3 lines are rejects" in place.fails()


def test_a_file_of_another_kind(place: Place) -> None:
    place.write(day_0=bytes(range(256)) * 8192)
    said = place.fails()
    assert "day_0: none of the first 1,000 lines can be read; line 1: " in said
    assert "\x1b" not in said
    assert place.left() == ["raw"]


def test_a_file_without_lines(place: Place) -> None:
    place.write(day_0=b"\x00" * (3 << 20))
    assert "day_0: a line is longer than 1 MiB" in place.fails()


@pytest.mark.more
def test_a_cut_off_file(place: Place) -> None:
    whole = gzip.compress(b"".join(b"%d" % (n % 2) + ROW[1:] for n in range(3000)))
    place.write(day_0=ROW, day_1__gz=whole[:-20])
    assert "day_1.gz: cut off" in place.fails()
    place.write(day_0=ROW, day_1__gz=whole)
    assert place.preprocess().code == 0
    assert place.left() == ["out", "raw"]


@pytest.mark.more
def test_rejects_are_counted(place: Place) -> None:
    bad = ROW.replace(b"68fd1e64", b"\x1b[31mred", 1)
    place.write(day_0=ROW + b"short\n" + bad + ROW)
    done = place.preprocess()
    assert done.code == 0
    assert "2 of 4 lines" in done.out
    assert "1: columns" in done.out
    assert "1: sparse" in done.out
    assert "rejects.jsonl" in done.out
    lines = (place.folder / "out/rejects.jsonl").read_text().splitlines()
    told = [json.loads(one) for one in lines]
    assert [(one["file"], one["line"], one["reason"]) for one in told] == [
        ("day_0", 2, "columns"),
        ("day_0", 3, "sparse"),
    ]
    assert told[1]["found"] == "cat_0: \x1b[31mred"


def test_strict(place: Place) -> None:
    bad = ROW.replace(b"68fd1e64", b"\x1b[31mred", 1)
    place.write(day_0=ROW * 2, day_1=ROW + bad)
    said = place.fails("--strict")
    assert "day_1: line 2: no hexadecimal number of 32 bits: cat_0: " in said
    assert "it becomes a reject" in said
    assert "\x1b" not in said


@pytest.mark.more
def test_a_taken_destination(place: Place) -> None:
    place.preprocess()
    said = place.fails("--dense", "min2")
    assert 'out: holds another result: dense is "ln3" (requested: "min2")' in said
    assert place.preprocess("--dense", "min2", "--overwrite").code == 0
    place.write(day_0=OTHER, day_1=OTHER, day_2=ROW)
    assert "other input files" in place.fails("--dense", "min2")
    (place.folder / "mine").mkdir()
    (place.folder / "mine/notes").write_text("keep")
    for more in ((), ("--overwrite",)):
        assert "ingot did not write" in place.fails(*more, out="mine")
    assert (place.folder / "mine/notes").read_text() == "keep"


@pytest.mark.parametrize(
    "words",
    [
        ("--dense", "ln2"),
        ("--shuffle-seed", "-1"),
        ("--shuffle-seed", "4294967296"),
        ("--frequency-threshold", "-1"),
        ("--threads", "-1"),
        ("--vocab", "nowhere"),
        ("--unseen", "2"),
        ("--encode", "rows"),
    ],
)
def test_values_that_cannot_be(place: Place, words: tuple[str, str]) -> None:
    done = place.preprocess(*words)
    assert done.code == 2
    assert words[0] in done.err
    assert place.left() == ["raw"]


def test_unseen_values_need_a_vocabulary(place: Place) -> None:
    assert "needs --vocab" in place.fails("--unseen", "1", code=2)


@pytest.mark.more
def test_new_days_with_the_ids_of_old_ones(place: Place) -> None:
    place.preprocess("--days", "0", out="old")
    place.write(day_3=OTHER + ROW.replace(b"68fd1e64", b"77777777"))
    assert place.preprocess("--vocab", "old", "--unseen", "1").code == 0
    assert place.array("day_3_sparse").tolist() == [[3] * 26, [1] * 26]
    assert place.preprocess("--vocab", "old", out="grown").code == 0
    assert place.array("day_3_sparse", "grown").tolist() == [[3] * 26, [4] * 26]
    (place.folder / "old/vocab/cat_7.parquet").unlink()
    said = place.fails("--vocab", "old", out="no")
    assert "cat_7.parquet: cannot be read" in said


@pytest.mark.more
def test_an_interrupt(place: Place) -> None:
    """Ctrl-C: the usual exit code, no trace; the next run goes on."""
    rows = b"".join(b"%d\t" % (n % 2) + ROW[2:] for n in range(40_000))
    place.write(day_0=ROW, day_1=rows, day_2=rows)
    words = ["criteo", "preprocess", "--input-dir", "raw", "--out", "out", "--threads", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "ingot", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=place.folder,
    ) as process:
        marker = "work/read-000000/piece.json"
        while process.poll() is None and not list(
            place.folder.glob(f".out.ingot-stage-*/{marker}")
        ):
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not (place.folder / "out").exists()
    done = place.preprocess()
    assert done.code == 0
    assert "resumed a run that had read" in " ".join(done.out.split())
    assert place.left() == ["out", "raw"]
