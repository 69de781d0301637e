"""Tables of SQLite and DuckDB files, which the programs themselves wrote."""

import gzip
import json
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.errors import SourceError
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.containers import sqlite_files
from ingot.converters.sources.sample import draw_sample
from tests.command_line import ingot
from tests.conftest import SURE

PEOPLE = """
create table people (id integer primary key, name text, score real, big integer, raw blob,
  shout text generated always as (name || '!'));
create index by_name on people (name);
create view names as select name from people order by id desc;
create trigger gone after insert on people begin delete from pairs; end;
create table pairs (k text, n int, v, primary key (k, n desc)) without rowid;
create table "a""b; drop table people/ö" (rowid text, _rowid_ text, oid text, "select" int);
create virtual table words using fts5 (t);
"""
# Rows that are read in another order than by their names or as they were written.
ROWS = [(9 - n, f"n{n}", n / 2, 2**62 + n, f"é{n}".encode()) for n in range(8)]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    place = tmp_path / "users.db"
    with closing(sqlite3.connect(place)) as made:
        made.executescript(PEOPLE)
        made.executemany("insert into people values (?, ?, ?, ?, ?)", ROWS)
        made.execute("insert into people values (100, x'ff', 9e999, null, x'fffe')")
        made.execute("insert into people values (101, null, 9e999, null, null)")
        made.executemany("insert into pairs values (?, ?, ?)", [("b", 1, 2.0), ("a", 1, "t")])
        made.executemany("insert into pairs values (?, ?, ?)", [("a", 2, 3), ("a", 3, None)])
        made.execute("""insert into "a""b; drop table people/ö" values ('r', '_', 'o', 1)""")
        made.commit()
    return place


def read(place: Path, **spec: object) -> list[object]:
    source = open_source(str(place), SourceSpec(**spec))
    return [row for batch in source.batches() for row in batch.values]


def test_rows_of_a_table(base):
    source = open_source(str(base))
    (file,) = source.files
    (batch,) = source.batches()
    assert (file.name, file.facts.rows) == ("people", 10)
    assert batch.values == [
        *(
            {"id": i, "name": n, "score": s, "big": b, "raw": r.decode(), "shout": f"{n}!"}
            for i, n, s, b, r in sorted(ROWS)
        ),
        {"id": 101, "name": None, "score": None, "big": None, "raw": None, "shout": None},
    ]
    assert [(one.row, one.detail[:4]) for one in batch.bad] == [(8, "name")]
    assert batch.non_finite == [(9, 1)]
    assert [type(row["score"]) for row in batch.values[:8]] == [float] * 8
    told = {one.name: one.why for one in source.left_out}
    assert told["names"].startswith("a view")
    assert told["words"].startswith("a virtual table")
    assert draw_sample(source).total_rows == 10


def test_tables_and_views_by_name(base):
    keyed = [
        {"k": "a", "n": 3, "v": None},
        {"k": "a", "n": 2, "v": 3},
        {"k": "a", "n": 1, "v": "t"},
    ]
    assert read(base, files=("pairs",)) == [*keyed, {"k": "b", "n": 1, "v": 2.0}]
    assert read(base, files=("users.db/names",))[:2] == [
        {"name": None},
        *read(base, files=("names",))[1:2],
    ]
    assert read(base, files=("a*",)) == []
    assert read(base, files=("a*/ö",)) == [{"rowid": "r", "_rowid_": "_", "oid": "o", "select": 1}]
    assert read(base, files=("!people", "!pairs", "!words_*")) == read(base, files=("a*/ö",))


def test_a_database_with_a_journal_is_read_as_its_program_sees_it(tmp_path):
    place = tmp_path / "live.db"
    with closing(sqlite3.connect(place)) as live:
        live.execute("pragma journal_mode = wal")
        live.execute("create table t (a)")
        live.execute("insert into t values (1)")
        live.commit()
        before = sorted(path.name for path in tmp_path.iterdir())
        source = open_source(str(place))
        assert [row for batch in source.batches() for row in batch.values] == [{"a": 1}]
        live.execute("insert into t values (2)")
        live.commit()
        assert read(place) == [{"a": 1}, {"a": 2}]
        assert open_source(str(place)).files[0].etag != source.files[0].etag
        assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_in_folders_archives_and_compressed(base, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "u.sqlite.gz").write_bytes(gzip.compress(base.read_bytes()))
    with tarfile.open(home / "a.tar.gz", "w:gz") as archive:
        archive.add(base, "in/users.db")
    names = ["a.tar.gz/in/users.db/people", "u.sqlite.gz/people"]
    source = open_source(str(home))
    assert [one.name for one in source.files] == names
    assert [(one.file, len(one.values)) for one in source.batches()] == [(n, 9) for n in names]


HOSTILE = {
    "endless": "with recursive r(i) as (select 1 union all select i from r) "
    "select i from r where i < 0",
    "wide": "select hex(zeroblob(200000000)) as x",
    "chance": "select random() as x",
    "loads": "select load_extension('x') as x",
    "gone": "select * from missing",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_views_end(tmp_path, monkeypatch, name):
    monkeypatch.setattr(sqlite_files, "_MOST_STEPS", 5)
    place = tmp_path / "h.db"
    with closing(sqlite3.connect(place)) as made:
        made.execute(f"create view {name} as {HOSTILE[name]}")
        made.execute("create table t (a)")
    assert read(place) == []
    with pytest.raises(SourceError, match=r"h\.db"):
        read(place, files=(name,))


def many_rows(place: Path, rows: int = 3000) -> bytes:
    with closing(sqlite3.connect(place)) as made:
        made.execute("create table t (a integer primary key, b text)")
        made.executemany("insert into t values (?, ?)", ((n, f"text {n}" * 9) for n in range(rows)))
        made.commit()
    return place.read_bytes()


def test_damage_comes_after_the_rows_before_it(tmp_path):
    data = many_rows(tmp_path / "good.db")
    (tmp_path / "bad.db").write_bytes(data[:200_000] + bytes(4096) + data[204_096:])
    rows: list[object] = []
    batches = open_source(str(tmp_path / "bad.db")).batches()
    with pytest.raises(SourceError, match=r"bad\.db.*(malformed|damaged)"):
        rows.extend(row for batch in batches for row in batch.values)
    assert len(rows) > 1000
    assert rows == read(tmp_path / "good.db")[: len(rows)]


def test_a_page_that_is_there_twice_is_damage(tmp_path):
    data = bytearray(many_rows(tmp_path / "good.db"))
    root = 4096  # the root of the table is page 2, an interior page
    assert data[root] == 5
    first, second = (int.from_bytes(data[root + 12 + n : root + 14 + n], "big") for n in (0, 2))
    data[root + second : root + second + 4] = data[root + first : root + first + 4]
    (tmp_path / "twice.db").write_bytes(data)
    with pytest.raises(SourceError, match=r"do not rise|malformed"):
        read(tmp_path / "twice.db")


@pytest.mark.more
def test_duckdb(tmp_path):
    place = tmp_path / "d.duckdb"
    with duckdb.connect(str(place)) as made:
        made.execute(
            "create table big as select 10 - i as i, 'x' || i as t, i * 1e20::hugeint as h, "
            "timestamp '2020-01-01 10:30:15' as ts, timestamptz '2020-01-01 10:30:15+02' as tz, "
            "1.50::decimal(10, 2) as d, [i, i + 1] as l, {'a': i} as s, 'nan'::double as n, "
            "interval 3 month as iv, case when i = 3 then '\\xFF'::blob else 'ab'::blob end as b "
            "from range(5) t(i)"
        )
        made.execute("create schema other; create table other.small as select 1 as x")
        made.execute("create view v as select 7 as y")
    source = open_source(str(place))
    (batch,) = source.batches()
    assert batch.values[1] == {
        **{"i": 9, "t": "x1", "h": 10**20, "ts": "2020-01-01T10:30:15", "d": 1.5, "l": [1, 2]},
        **{"tz": "2020-01-01T08:30:15+00:00", "s": {"a": 1}, "n": None, "iv": "3 months"},
        "b": "ab",
    }
    assert [one.row for one in batch.bad] == [3]
    assert {one.name for one in source.left_out} == {"other.small", "v"}
    assert read(place, files=("other.small",)) == [{"x": 1}]
    assert read(place, files=("v",)) == [{"y": 7}]
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(place, "d.duckdb")
    assert len(read(tmp_path / "a.tar")) == 4
    data = place.read_bytes()
    place.write_bytes(data[:9000])
    with pytest.raises(SourceError, match=r"d\.duckdb"):
        read(place)


@pytest.mark.long
def test_long_texts_of_duckdb_are_read_with_more_memory_and_each_row_once(tmp_path):
    place = tmp_path / "d.duckdb"
    with duckdb.connect(str(place)) as made:
        made.execute(
            "create table t as select i, repeat(chr(97 + (i % 26)::int), "
            "case when i < 3000 then 9 else 130000 end) as t from range(5000) r(i)"
        )
    number = 0
    for batch in open_source(str(place)).batches():
        for row in batch.values:
            want = chr(97 + number % 26) * (9 if number < 3000 else 130_000)
            assert row == {"i": number, "t": want}
            number += 1
    assert number == 5000


DATABASES = {"sqlite": sqlite3.connect, "duckdb": duckdb.connect}


@pytest.fixture(params=DATABASES)
def posts(request, tmp_path):
    place = tmp_path / "posts.db"
    with closing(DATABASES[request.param](str(place))) as made:
        made.execute("create table users (id integer, name text)")
        made.execute("create table posts (id integer, who integer, question text, answer text)")
        made.execute("insert into users values (1, 'ann'), (2, 'bo')")
        for number in range(30):
            asked = f"'What is {number} and {number}?', 'It is {2 * number}.'"
            made.execute(f"insert into posts values ({number}, {number % 2 + 1}, {asked})")
        made.commit()
    return place


JOINED = (
    "select p.id, p.answer, p.question, u.id from posts p join users u on u.id = p.who "
    "where p.id >= 10 order by p.id desc"
)


def test_the_rows_of_a_query(posts, tmp_path):
    source = open_source(str(posts), SourceSpec(query=JOINED))
    rows = [row for batch in source.batches() for row in batch.values]
    assert [file.name for file in source.files] == ["query"]
    assert [row["id"] for row in rows] == [*range(29, 9, -1)]
    assert rows[0] == {
        **{"id": 29, "answer": "It is 58.", "question": "What is 29 and 29?", "id.1": 2}
    }
    assert len(draw_sample(source).rows) == 20
    (tmp_path / "beside.csv").write_text("a,b\n1,2\n")
    folder = open_source(str(tmp_path), SourceSpec(query=JOINED, files=("*.db",)))
    assert [file.name for file in folder.files] == ["posts.db/query"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("select id from posts", "no ORDER BY"),
        ("select id from (select id from posts order by id) t", "no ORDER BY"),
        ("select id from posts -- order by id", "comment inside"),
        ("select 1 order by 1; drop table posts", "`;` or a comment"),
        ("delete from posts where id in (select 1 order by 1) returning id order by id", "cannot"),
        ("insert into posts select * from posts order by id", "cannot read"),
        ("select gone from posts order by 1", r"gone.*\(check the query\)"),
    ],
)
def test_a_query_that_is_refused(posts, query, problem):
    before = posts.read_bytes()
    with pytest.raises(SourceError, match=problem):
        read(posts, query=query)
    assert posts.read_bytes() == before


def test_a_query_is_for_databases(tmp_path):
    place = tmp_path / "a.csv"
    place.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(SourceError, match="a query is for databases"):
        read(place, query="select 1 order by 1")


def ask(*words: object) -> str:
    return ingot(*words).output


@pytest.mark.more
def test_a_query_is_part_of_the_mapping(posts, tmp_path):
    mapping, out = tmp_path / "m.json", tmp_path / "out"
    ask("map", posts, "--query", JOINED, "-o", mapping, "--pin-sample")
    assert json.loads(mapping.read_text())["source"]["query"] == JOINED
    ask("check", mapping)  # on the pinned rows
    ask("check", mapping, posts)
    ask("convert", mapping, posts, "--out", out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert [one["name"] for one in manifest["inputs"]] == ["query"]
    assert manifest["rows"]["converted"] == 20
    fewer = JOINED.replace(">= 10", ">= 25")
    ask("convert", mapping, posts, "--out", out, "--query", fewer, "--overwrite")
    assert json.loads((out / "manifest.json").read_text())["rows"]["converted"] == 5
    assert json.loads((out / "mapping.json").read_text())["source"]["query"] == fewer
    ask("run", posts, "--query", JOINED, "--out", tmp_path / "other", *SURE)
    assert json.loads((tmp_path / "other/mapping.json").read_text())["source"]["query"] == JOINED


@pytest.mark.more
def test_each_table_is_a_data_set_of_a_lake(tmp_path, monkeypatch):
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    (tmp_path / "lake").mkdir()
    with closing(sqlite3.connect(tmp_path / "lake/shop.db")) as made:
        made.execute("create table posts (id integer primary key, text text)")
        made.execute("create table quiz (question text, answer text)")
        text = "A sentence of a longer text, number {}, which says what it is about."
        made.executemany(
            "insert into posts(text) values (?)", ((text.format(n),) for n in range(60))
        )
        pairs = ((f"What is {n} plus {n}?", f"It is {2 * n}, as you can count.") for n in range(60))
        made.executemany("insert into quiz values (?, ?)", pairs)
        made.commit()
    words = ["lake", "run", str(tmp_path / "lake"), "--out", str(tmp_path / "out")]
    words += ["--mapper", "rules", *SURE]
    for _ in range(2):  # the second time from what is kept
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    found = sorted(path.parent.name for path in (tmp_path / "out").glob("**/manifest.json"))
    assert len(found) == 2, (found, done.output)
    inputs = [
        one
        for path in (tmp_path / "out").glob("**/manifest.json")
        for one in json.loads(path.read_text())["inputs"]
    ]
    assert sorted(one["name"] for one in inputs) == ["shop.db/posts", "shop.db/quiz"]
    assert len({one["sha256"] for one in inputs}) == 1


@pytest.mark.more
@pytest.mark.parametrize("columns", [1, 3])
def test_a_computed_column_takes_little_memory(tmp_path: Path, columns: int) -> None:
    path = tmp_path / "a.db"
    text = "replace(hex(zeroblob({})), '00', '0000000')"
    with sqlite3.connect(path) as data:
        more = ", ".join(f"c{n} text as ({text.format(2)})" for n in range(columns))
        data.execute(f"create table t (id integer primary key, {more})")
        data.executemany("insert into t values (?)", [(n,) for n in range(300)])
        data.execute("pragma writable_schema = 1")
        data.execute("update sqlite_master set sql = replace(sql, 'b(2)', 'b(8000000)')")
    data.close()
    script = r"""
import re, sys
from pathlib import Path
from ingot.converters.errors import SourceError
from ingot.converters.sources import open_source
def peak():
    status = Path("/proc/self/status").read_text()
    return int(re.search("VmHWM:\s+(\d+)", status)[1]) >> 10
try:
    for batch in open_source(sys.argv[1]).batches():
        pass
except SourceError as error:
    print(error)
print(peak())
"""
    words = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    said, peak = done.stdout.splitlines()
    assert "looks like a decompression bomb" in said or "too much memory" in said
    assert int(peak) < 900, done.stdout
