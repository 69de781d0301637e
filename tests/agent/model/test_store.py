"""What is remembered in the state folder: by whom it can be read, for how long, by how many."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.agent.model.cache import CACHE_FILE, KEPT_S, KnownForm, Store
from ingot.agent.model.endpoint import Endpoint
from ingot.converters.errors import OutputError

ENDPOINT = Endpoint(model="m", base_url="http://localhost:1/v1")
KNOWN = KnownForm(level="tool", dropped=("seed",), room=None)


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(tmp_path / "home" if request.param == "file" else None)


def test_what_is_put_in_comes_out(store: Store) -> None:
    assert (store.level(ENDPOINT), store.reply("k")) == (None, None)
    store.remember_form(ENDPOINT, KNOWN)
    assert store.level(ENDPOINT) == KNOWN
    store.keep("k", {"mapping": {"text": "\ud800"}, "n": [1, None]})
    store.keep("k", {"mapping": {"text": "正文"}, "n": [2, None]})
    assert store.reply("k") == {"mapping": {"text": "正文"}, "n": [2, None]}
    assert store.reply("other") is None


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://localhost:1/v1/", True),
        ("http://key:word@localhost:1/v1?token=1", True),
        ("http://localhost:1/v2", False),
        ("http://localhost:2/v1", False),
        ("https://localhost:1/v1", False),
    ],
)
def test_an_endpoint_is_its_url_and_model(store: Store, url: str, same: bool) -> None:
    store.remember_form(ENDPOINT, KNOWN)
    assert store.level(Endpoint(model="m", base_url=url)) == (KNOWN if same else None)
    assert store.level(Endpoint(model="n", base_url=url)) is None


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    Store(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Store(tmp_path / "home").remember_form(ENDPOINT, KNOWN)
    finally:
        os.umask(before)
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "home" / CACHE_FILE).stat().st_mode & 0o777 == 0o600


def test_old_knowledge_is_forgotten_and_replies_are_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.remember_form(ENDPOINT, KNOWN)
    store.keep("k", {})
    with sqlite3.connect(tmp_path / CACHE_FILE) as connection:
        for table in ("endpoints", "replies"):
            connection.execute(f"UPDATE {table} SET at = at - ?", (KEPT_S + 60,))
    connection.close()
    assert (store.level(ENDPOINT), store.reply("k")) == (None, {})


DAMAGED = [
    "notjson",
    "",
    5,
    b"\xff\xfe\x00",
    "null",
    "[]",
    '"tool"',
    "{}",
    "[" * 100_000,
    '{"level": "json_schema"}',
    '{"level": "json_schema", "dropped": [], "x": 1}',
    '{"level": "mind_reading", "dropped": [], "room": null}',
    '{"level": ["tool"], "dropped": [], "room": null}',
    '{"level": "tool", "dropped": "seed", "room": null}',
    '{"level": "tool", "dropped": [{}], "room": null}',
    '{"level": "tool", "dropped": ["messages"], "room": null}',
    '{"level": "tool", "dropped": [], "room": "model"}',
    '{"level": "tool", "dropped": [], "room": 5}',
]


def damage(folder: Path, document: object) -> None:
    with sqlite3.connect(folder / CACHE_FILE) as connection:
        for table in ("endpoints", "replies"):
            connection.execute(f"UPDATE {table} SET document = ?", (document,))
    connection.close()


@pytest.mark.parametrize("document", DAMAGED, ids=lambda one: repr(one)[:60])
def test_what_is_damaged_or_of_another_version_is_not_remembered(
    tmp_path: Path, document: object
) -> None:
    store = Store(tmp_path)
    store.remember_form(ENDPOINT, KNOWN)
    store.keep("k", {})
    damage(tmp_path, document)
    assert store.level(ENDPOINT) is None
    kept = store.reply("k")
    assert kept is None or isinstance(kept, dict)
    store.remember_form(ENDPOINT, KNOWN)
    assert store.level(ENDPOINT) == KNOWN


def test_a_text_that_is_no_utf8_is_not_remembered(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.remember_form(ENDPOINT, KNOWN)
    with sqlite3.connect(tmp_path / CACHE_FILE) as connection:
        connection.execute("UPDATE endpoints SET document = CAST(x'7bff' AS TEXT)")
    connection.close()
    assert store.level(ENDPOINT) is None


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / CACHE_FILE).write_bytes(b"no database " * 100)
    with pytest.raises(OutputError, match=r"cannot be used.*the file is damaged"):
        Store(tmp_path).level(ENDPOINT)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(OutputError, match=r"cannot be used.*INGOT_HOME"):
        Store(tmp_path / "home").keep("k", {})


WRITER = """
import sys
from pathlib import Path
from ingot.agent.model.cache import Store
store, name = Store(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    store.keep(f"{name} {number}", {"number": number})
    assert store.reply(f"{name} {number}") == {"number": number}
"""


@pytest.mark.more
def test_several_processes_write_at_once(tmp_path: Path) -> None:
    """They begin in the same moment, so that all of them make the file and set its mode."""
    names = ("one", "two", "three", "four")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "home"), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in names
    ]
    for one in writers:
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
    for one in writers:
        assert one.stdin is not None
        one.stdin.write(b"go\n")
        one.stdin.flush()
    for one in writers:
        one.communicate()
    assert [one.returncode for one in writers] == [0] * len(writers)
    store = Store(tmp_path / "home")
    for name in names:
        assert [store.reply(f"{name} {number}") for number in range(40)] == [
            {"number": number} for number in range(40)
        ]
