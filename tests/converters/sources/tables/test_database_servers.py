"""Tables and queries of real PostgreSQL and MariaDB servers, which the tests start."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ingot.cli.app import app
from ingot.converters.errors import SourceError
from ingot.converters.sources import open_source
from ingot.converters.sources.facts import SourceSpec, input_entry

DEMO = """
create table posts (id bigint primary key, text text, n numeric, f float8, at timestamptz,
  d date, i interval, raw bytea, tags text[], extra jsonb, odd "char");
insert into posts select g, 'text ' || g, g * 1.5, g / 3.0, timestamptz '2020-01-01 10:30:15+02',
  '2020-01-02', '1 mon 2 days', convert_to('é', 'UTF8'), array['a', 'b'], '{"k": 1}', 'c'
  from generate_series(5000, 1, -1) g;
insert into posts (id, n, at, raw, d) values
  (9001, 12345678901234567890123.5, 'infinity', '\\xfffe', 'infinity'),
  (9002, 'NaN', null, null, null);
create table "no key" (a int); create schema s; create sequence x;
create table s."Of Two" (b int, a int, primary key (a, b));
insert into s."Of Two" values (1, 2), (2, 1), (1, 1);
"""


def run_ingot(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def postgres():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL server is installed")
    folder, port = Path(tempfile.mkdtemp(prefix="ingot-pg-")), _free_port()
    who = "postgres" if os.geteuid() == 0 else None
    if who:
        shutil.chown(folder, who)
    (folder / "password").write_text("secret-word\n")
    (folder / "password").chmod(0o644)
    run = {"user": who, "check": True, "capture_output": True, "cwd": folder}
    made = ["-D", "data", "-U", "demo", "-A", "scram-sha-256", "--pwfile", "password"]
    subprocess.run([found[-1], *made, "-E", "UTF8", "--locale", "C"], **run)
    server = [found[-1].with_name("pg_ctl"), "-D", "data", "-w"]
    subprocess.run([*server, "-l", "log", "-o", f"-p {port} -k {folder}", "start"], **run)
    try:
        import psycopg

        with psycopg.connect(f"postgresql://demo:secret-word@127.0.0.1:{port}/postgres") as base:
            base.execute(DEMO)
        yield f"postgresql://demo@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*server, "-m", "immediate", "stop"], **run)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def password(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "secret-word")
    monkeypatch.setenv("MYSQL_PWD", "secret-word")


def read_all(location: str, query: str | None = None) -> list[dict]:
    source = open_source(location, SourceSpec(query=query))
    return [row for batch in source.batches() for row in batch.values]


@pytest.mark.long
def test_a_table_comes_in_the_order_of_its_key(postgres, password):
    source = open_source(f"{postgres}?table=posts")
    rows, bad = [], []
    for batch in source.batches():
        rows += batch.values
        bad += batch.bad
    assert [row["id"] for row in rows] == [*range(1, 5001), 9002]
    assert [one.row for one in bad] == [5000]
    assert "raw" in bad[0].found
    assert rows[1] == {
        **{"id": 2, "text": "text 2", "n": 3, "f": 2 / 3, "at": "2020-01-01T08:30:15+00:00"},
        **{"d": "2020-01-02", "i": "P1M2D", "raw": "é", "tags": ["a", "b"], "extra": {"k": 1}},
        "odd": "c",
    }
    assert rows[-1]["n"] is None
    assert read_all(f"{postgres}?table=s.Of Two") == [
        *({"b": 1, "a": 1}, {"b": 2, "a": 1}, {"b": 1, "a": 2})
    ]
    assert read_all(postgres, "select n, at, d from posts where id > 9000 order by id")[0] == {
        **{"n": "12345678901234567890123.5", "at": "infinity", "d": "infinity"}
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "query", "problem"),
    [
        ("?table=no key", None, "primary key"),
        ("?table=gone", None, "primary key"),
        ("", None, "it is not stated which table or query to read (append ?table="),
        ("?table=posts", "select id from posts order by id", "names a table and a query"),
        ("?query=select 1 order by 1", None, "state it as `query`"),
        ("", "select id from posts", "no ORDER BY"),
        ("", "select * from (select id from posts order by id) t", "no ORDER BY"),
        ("", "select id from posts -- order by id", "comment inside"),
        ("", "select 1 order by 1; drop table posts", "`;` or a comment inside"),
        ("", "delete from posts returning id order by 1", "cannot read"),
        ("", "select nextval('x') order by 1", "read-only transaction"),
        ("?table=posts&password=x", None, "passwords are not taken"),
        ("?table=posts&sslpassword=x", None, "passwords are not taken"),
        ("?table=posts&sslmode=verify-ful", None, "invalid sslmode"),
        ("?table=posts&sslmode=require", None, "server does not support SSL"),
        ("?table=posts&sslmood=require", None, "sslmood"),
    ],
)
def test_what_is_refused(postgres, password, given, query, problem):
    with pytest.raises(SourceError, match=problem) as caught:
        read_all(postgres + given, query)
    assert "demo" not in str(caught.value)


@pytest.mark.long
def test_passwords_come_from_the_environment_only(postgres, monkeypatch):
    with pytest.raises(SourceError, match="not taken from a URL") as caught:
        open_source(postgres.replace("demo@", "demo:secret-word@") + "?table=posts")
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("PGPASSWORD", "wrong-word")
    with pytest.raises(SourceError, match="authentication failed") as caught:
        open_source(f"{postgres}?table=posts")
    assert "word" not in str(caught.value).replace("password", "")
    assert "demo" not in str(caught.value)


@pytest.mark.long
def test_a_conversion_hashes_the_rows_that_it_read(postgres, password, tmp_path):
    location = f"{postgres}?table=posts"
    mapping = tmp_path / "m.json"
    mapping.write_text(json.dumps({"version": 2, "text": "text"}))
    out = tmp_path / "out"
    done = run_ingot("convert", str(mapping), location, "--out", str(out))
    assert done.exit_code == 0, done.output
    manifest = (out / "manifest.json").read_text()
    assert "demo@" not in manifest
    (known,) = json.loads(manifest)["inputs"]
    source = open_source(location)
    list(source.batches())
    assert input_entry(source.files[0]) == known
    again = run_ingot("convert", str(mapping), location, "--out", str(out))
    assert again.exit_code == 0
    assert "up to date" in again.output.lower() or "already" in again.output.lower()
    import psycopg

    with psycopg.connect(postgres.replace("demo@", "demo:secret-word@")) as base:
        base.execute("update posts set text = 'other' where id = 7")
    changed = run_ingot("convert", str(mapping), location, "--out", str(out))
    assert changed.exit_code != 0
    assert "other content" in changed.output


@pytest.fixture(scope="module")
def mariadb():
    server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if not server or not install:
        pytest.skip("no MariaDB server is installed")
    folder, port = Path(tempfile.mkdtemp(prefix="ingot-my-")), _free_port()
    who = "mysql" if os.geteuid() == 0 else None
    if who:
        shutil.chown(folder, who)
    place = [f"--datadir={folder}/data", "--no-defaults"][::-1]
    made = [install, *place, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(made, user=who, check=True, capture_output=True, cwd=folder)
    how = [f"--port={port}", f"--socket={folder}/s", "--bind-address=127.0.0.1"]
    with subprocess.Popen([server, *place, *how], user=who, stderr=subprocess.DEVNULL) as process:
        try:
            _fill_mariadb(port)
            yield f"mysql://demo@127.0.0.1:{port}/shop"
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _fill_mariadb(port: int) -> None:
    import pymysql

    for tried in range(100):
        try:
            base = pymysql.connect(host="127.0.0.1", port=port, user="root", charset="utf8mb4")
            break
        except pymysql.err.OperationalError:
            if tried == 99:
                raise
            time.sleep(0.2)
    with base, base.cursor() as cursor:
        for said in (
            "create database shop character set utf8mb4",
            "create user demo@'127.0.0.1' identified by 'secret-word'",
            "grant select on shop.* to demo@'127.0.0.1'",
            "create table shop.`or``ders` (id bigint unsigned primary key, t text, d decimal(30,2),"
            " at datetime(3), long_time time, raw blob)",
            "insert into shop.`or``ders` values (2, '名', 1.50, '2020-01-01 10:30:15.25',"
            " '101:02:03', x'fffe'), (18446744073709551615, 'b', 2, null, null, 'é'),"
            " (1, 'a', 12345678901234567890123.25, null, null, null)",
            "create table shop.nokey (a int)",
            "create table shop.many (a int primary key) as select seq a from shop.seq_1_to_200000",
        ):
            cursor.execute(said)
        base.commit()


@pytest.mark.long
def test_mariadb(mariadb, password):
    (batch,) = open_source(f"{mariadb}?table=or`ders").batches()
    assert batch.values == [
        {"id": 1, "t": "a", "d": "12345678901234567890123.25", "at": None, "long_time": None}
        | {"raw": None},
        {"id": 18446744073709551615, "t": "b", "d": 2, "at": None, "long_time": None, "raw": "é"},
    ]
    assert [(one.row, "raw" in one.found) for one in batch.bad] == [(1, True)]
    query = "select t, at, long_time from `or``ders` where id = 2 order by id"
    (row,) = read_all(mariadb, query)
    assert row == {"t": "名", "at": "2020-01-01T10:30:15.250000", "long_time": "101:02:03"}
    with pytest.raises(SourceError, match="primary key"):
        read_all(f"{mariadb}?table=nokey")
    with pytest.raises(SourceError, match="cannot read"):
        read_all(mariadb, "delete from nokey order by a")
    twice = "select id, id from `or``ders` where id = 1 order by id"
    assert read_all(f"{mariadb}?ssl_disabled=true", twice) == [{"id": 1, "id.1": 1}]
    with (
        open_source(mariadb, SourceSpec(query="select a from many order by a"))
        .files[0]
        .open_raw() as rows
    ):
        assert rows.read(8) == b'{"a":1}\n'  # and its end reads no other one
    for given, problem in (
        ("ssl_ca=/gone.pem", "No such file"),
        ("ssl_verify_identity=true", "SSL is required"),
        ("sslmode=require", "no option of pymysql: sslmode"),
    ):
        with pytest.raises(SourceError, match=problem):
            read_all(f"{mariadb}?{given}", twice)
