"""Checks of the places that are written to, on real folders and databases."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ingot.agent.doctor import checks
from ingot.agent.doctor.checks import Check
from ingot.agent.model.cache import KnownForm, Store
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.session import open_runs

NOT_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder, not there yet; temporary and current folder are there."""
    folder = tmp_path / "state" / "ingot"
    monkeypatch.setenv("INGOT_HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks, "LEAST_FREE", 0)
    return folder


def look() -> dict[str, Check]:
    return {one.name: one for one in checks.folder_checks()}


def use(home: Path) -> None:
    """Both databases as runs make them."""
    with open_runs(home):
        pass
    Store(home).remember_form(Endpoint(model="m"), KnownForm(level="tool"))


def test_nothing_is_there_yet_and_nothing_is_made(home: Path) -> None:
    found = look()
    assert list(found) == ["state folder", "temporary", "current folder"]
    assert {one.state for one in found.values()} == {"ok"}
    assert found["state folder"].figure.startswith(f"{home} (INGOT_HOME); not there yet")
    assert not home.parent.exists()


def test_what_runs_leave_is_well(home: Path) -> None:
    use(home)
    found = look()
    assert {one.state for one in found.values()} == {"ok"}
    for name in ("runs.sqlite", "models.sqlite"):
        assert found[name].figure.endswith(" kB, whole, WAL")
    assert found["SQLite"].figure.endswith(", WAL")
    assert {one.name for one in home.iterdir()} == {"runs.sqlite", "models.sqlite"}


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INGOT_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    figure = look()["state folder"].figure
    assert figure.startswith(str(tmp_path))
    assert "(the default)" in figure


def test_no_folder_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without an entry and without HOME, as some containers have."""
    for name in ("INGOT_HOME", "HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    check = look()["state folder"]
    assert (check.state, check.figure) == ("fail", "none is known")
    assert checks.find_state_folder() is None


def test_a_file_in_the_way(home: Path) -> None:
    home.parent.write_text("a file")
    found = look()
    assert list(found) == ["state folder", "temporary", "current folder"]
    assert (found["state folder"].state, "is a file" in found["state folder"].figure) == (
        "fail",
        True,
    )
    assert "INGOT_HOME" in found["state folder"].hint


@NOT_ROOT
def test_a_folder_that_cannot_be_written(home: Path) -> None:
    home.mkdir(parents=True, mode=0o500)
    found = look()
    assert (found["state folder"].state, "SQLite" in found) == ("fail", False)
    assert "cannot be written: Permission denied" in found["state folder"].figure


def test_a_folder_that_nobody_can_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", "/proc/ingot")
    assert look()["state folder"].state == "fail"


def test_what_others_may_read_is_told(home: Path) -> None:
    use(home)
    home.chmod(0o755)
    (home / "models.sqlite").chmod(0o644)
    check = look()["permissions"]
    assert check.state == "warn"
    assert check.hint == f"chmod 700 {home}; chmod 600 {home / 'models.sqlite'}"


@pytest.mark.parametrize("name", ["runs.sqlite", "models.sqlite"])
def test_a_file_that_is_no_database(home: Path, name: str) -> None:
    use(home)
    (home / name).write_bytes(b"no database at all " * 100)
    found = look()
    assert [one.name for one in found.values() if one.state != "ok"] == [name]
    assert (found[name].state, "not a database" in found[name].figure) == ("fail", True)
    assert f"move {home / name} away" in found[name].hint


def test_a_database_with_a_hole(home: Path) -> None:
    use(home)
    file = home / "models.sqlite"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE INDEX later ON replies (at)")
        connection.executemany(
            "INSERT INTO replies VALUES (?, ?, ?)", [(str(n), "x" * 500, n) for n in range(200)]
        )
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.seek(size // 2)
        stream.write(b"\xff" * 5000)
    check = look()["models.sqlite"]
    assert check.state == "fail"
    assert "\n" not in check.figure


def test_a_database_that_is_in_use(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(home)
    monkeypatch.setattr(checks, "_BUSY_S", 0.05)
    with closing(sqlite3.connect(home / "runs.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        check = look()["runs.sqlite"]
    assert (check.state, check.figure) == ("warn", "in use by another process")


def test_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LEAST_FREE", 10**18)
    found = look()
    assert {one.state for one in found.values()} == {"warn"}
    assert found["temporary"].figure.endswith(" free")
    assert "1,000,000,000.0 GB" in found["temporary"].hint


@NOT_ROOT
def test_a_current_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert look()["current folder"].state == "warn"
    finally:
        tmp_path.chmod(0o700)


def test_a_current_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert look()["current folder"].state == "fail"
