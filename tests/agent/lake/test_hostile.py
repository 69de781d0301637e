"""A lake that means harm: names, links, a pipe, another lake's folder, a mapping that looks around.

Whatever lies there, the run comes to its end, writes below its folder only, and says nothing that a
terminal or a browser would obey.
"""

import gzip
import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.agent.lake.truth import command, script, surroundings

NAMES = 6  # of the odd names, as many as the suite has time for


@pytest.fixture(scope="module")
def rows() -> Any:
    """Makes rows of questions and answers, as lines."""
    writer = script("words").Writer(random.Random(4))

    def made(count: int = 12) -> str:
        pairs = [(writer.question("en"), writer.text("en", 2)) for _ in range(count)]
        return "".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in pairs)

    return made


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def ran(root: Path, out: Path) -> tuple[str, Counter[str]]:
    """What a run says, and its data sets by status."""
    words, env = command(root, out), surroundings(out.parent / "home")
    shown = subprocess.run(words, env=env, capture_output=True, check=True)
    statuses = pq.read_table(out / "catalog.parquet").column("status").to_pylist()
    return (shown.stdout + shown.stderr).decode(), Counter(statuses)


def everything(folder: Path) -> set[str]:
    return {f"{base}/{name}" for base, _, names in os.walk(folder) for name in names}


@pytest.mark.more
def test_names_links_and_pipes_do_no_harm(rows, tmp_path):
    root, out = tmp_path / "lake", tmp_path / "out"
    names = script("special").NAMES
    chosen = [*names[:NAMES], "tab\tand\x1b[31mred", "\u202egnp.lnosj"]
    for name in chosen:
        put(root / name / f"{name[:50]}.jsonl", rows())
    cut = root / "cut" / "new\nline\x1b[2J" / "\x1b]0;title\x07.jsonl.gz"
    cut.parent.mkdir(parents=True)
    cut.write_bytes(gzip.compress(rows().encode())[:-40])
    put(Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe/x\xe9.jsonl")), rows())
    (root / "links").mkdir()
    (root / "links" / "up").symlink_to("..")
    (root / "links" / "self").symlink_to("self")
    os.mkfifo(root / "links" / "pipe.jsonl")
    put(root / "theirs" / ".ingot-lake" / "state.sqlite", "")
    put(root / "theirs" / "mappings" / "a.json", json.dumps({"version": 2, "text": "text"}))
    before = everything(tmp_path)
    shown, told = ran(root, out)
    assert told == {"converted": len(chosen), "failed": 1}
    assert not [sign for sign in shown if sign < " " and sign != "\n"]
    assert "\u202e" not in shown
    new = everything(tmp_path) - before
    assert all(Path(one).is_relative_to(out) for one in new if "/home/" not in one)
    assert {folder.parent for folder in out.glob("sets/*")} == {out / "sets"}
    page = (out / "index.html").read_bytes()
    assert b"<script>alert(1)" not in page
    assert b"\x1b" not in page


@pytest.mark.attack
def test_mappings_reach_no_file_of_others(rows, tmp_path):
    root, out = tmp_path / "lake", tmp_path / "out"
    put(root / "one" / "a.jsonl", rows())
    put(root / "two" / "b.jsonl", rows())
    put(tmp_path / "outside" / "c.jsonl", rows())
    ran(root, out)
    file = out / "mappings" / "one.json"
    document = json.loads(file.read_text())
    for wanted in ("../../outside/*.jsonl", "../two/*", str(tmp_path / "outside" / "*"), "**/b*"):
        file.write_text(json.dumps({**document, "source": {"files": [wanted]}}))
        _, told = ran(root, out)
        assert told == {"converted": 1, "failed": 1}, wanted
    for broken in ("{", "[]", "null", '{"a":' * 5000):
        file.write_text(broken)
        _, told = ran(root, out)
        assert told == {"converted": 1, "failed": 1}, broken[:20]


@pytest.mark.attack
@pytest.mark.skipif(os.geteuid() == 0 and not Path("/usr/bin/setpriv").exists(), reason="as root")
def test_what_may_not_be_read_stops_nothing_else(rows, tmp_path):
    root, out = tmp_path / "lake", tmp_path / "out"
    for name in ("open", "shut", "secret"):
        put(root / name / "a.jsonl", rows())
    (root / "shut").chmod(0)
    (root / "secret" / "a.jsonl").chmod(0)
    caps = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    words = [*(caps if os.geteuid() == 0 else []), *command(root, out, "--json")]
    try:
        done = subprocess.run(words, env=surroundings(tmp_path / "home"), capture_output=True)
    finally:
        (root / "shut").chmod(0o700)
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert {one["name"]: one["status"] for one in told["sets"]}["open"] == "converted"
    assert "shut" in done.stdout.decode()


@pytest.mark.attack
def test_sets_that_have_changed_places_come_to_an_end(rows, tmp_path):
    """Each was asked about the shape that the other has now, and no answer is remembered."""
    special, served = script("special"), script("served")
    maker = script("sets").Maker(script("words").Writer(random.Random(3)))
    sets = list(special.asked(maker, 4, 2))
    root, out = tmp_path / "lake", tmp_path / "out"
    for made in (sets[0], sets[6]):  # both are lines of JSON
        put(root / made.key / "data.jsonl", made.files["data.jsonl"].decode())
    first, second = sorted(root.iterdir())
    with served.serving(served.Model(special.replies(sets))) as model:
        words = command(root, out, "--json", url=model.url)
        for home in ("one", "two"):
            done = subprocess.run(
                words, env=surroundings(tmp_path / home), capture_output=True, timeout=120
            )
            statuses = json.loads(done.stdout)["statuses"]  # what only a model says may wait
            assert set(statuses) <= {"converted", "waiting"}, done.stderr
            assert sum(statuses.values()) == 2
            first.rename(tmp_path / "aside")
            second.rename(first)
            (tmp_path / "aside").rename(second)
            for file in (out / "mappings").iterdir():
                file.unlink()
