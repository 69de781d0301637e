"""Drafted featuremaps: what is proposed for tables of different shapes, and that it is read."""

import csv
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import IngotError, ReviewNeeded, SourceError
from ingot.converters.recsys.ctr.draft.cell_shapes import shape_of_cells, words_of
from ingot.converters.recsys.ctr.draft.column_profile import Distinct, take_sample
from ingot.converters.recsys.ctr.draft.feature_choice import bucket_size, round_up
from ingot.converters.recsys.ctr.draft.featuremap_draft import Draft, draft
from ingot.converters.recsys.ctr.featuremap import parse
from ingot.converters.recsys.ctr.settings import ChosenColumns
from ingot.converters.recsys.ctr.table.table_rows import read_table

GENRES = ["Action", "Comedy", "Sci-Fi", "Film Noir", "Drama"]


def written(path: Path, names: Sequence[str], rows: Iterator[Sequence[Any]], **dialect: Any) -> str:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", **dialect)
        writer.writerow(names)
        writer.writerows(rows)
    return str(path)


@pytest.fixture
def movies(tmp_path: Path) -> str:
    """Ratings of movies: no click, genres with pipes, times, prices."""
    rng = random.Random(1)
    names = ["userId", "movieId", "rating", "liked", "timestamp", "genres", "age", "price"]

    def rows() -> Iterator[Sequence[Any]]:
        for place in range(4000):
            rating = rng.randint(1, 5)
            genres = "|".join(sorted(rng.sample(GENRES, rng.randint(1, 3))))
            movie, age, price = rng.randint(1, 900), rng.randint(18, 69), f"{rng.random() * 30:.2f}"
            time = 1_000_000_000 + 37 * place
            yield rng.randint(1, 400), movie, rating, int(rating > 3), time, genres, age, price

    return written(tmp_path / "movies.csv", names, rows())


@pytest.fixture
def ads(tmp_path: Path) -> str:
    """An advertising log with tabs: weights in lists with pipes, NULL, outcomes."""
    rng = random.Random(2)
    names = ["impression_id", "uid", "clk", "is_purchase", "ad_id", "city"]
    names += ["tags", "hist", "follow", "none", "site"]

    def some(most: int, make: Callable[[], str]) -> str:
        return "|".join(make() for _ in range(rng.randint(0, most)))

    def rows() -> Iterator[Sequence[Any]]:
        for place in range(5000):
            click = int(rng.random() < 0.1)
            bought = int(click and rng.random() < 0.3)
            ad = "a1" if rng.random() < 0.9 else f"a{rng.randint(2, 30_000)}"
            city = "NULL" if rng.random() < 0.1 else f"c{rng.randint(1, 30)}"
            tags = some(6, lambda: f"t{rng.randint(1, 300)}")
            hist = some(40, lambda: f"{rng.randint(1, 60_000)}:{rng.random():.2f}")
            follow, site = int(rng.random() < 0.1), f"www.site{rng.randint(1, 20)}.com"
            row = f"{place:08x}", f"u{rng.randint(1, 700)}", click, bought, ad, city
            yield *row, tags, hist, follow, "", site

    return written(tmp_path / "ads.tsv", names, rows(), delimiter="\t")


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Parquet with lists, weights in texts and in objects, vectors, times."""
    rng, count = np.random.default_rng(3), 3000
    table = {
        "user_id": rng.integers(0, 900, count),
        "click": rng.random(count) < 0.2,
        "items": [rng.integers(0, 2000, rng.integers(0, 9)).tolist() for _ in range(count)],
        "weights": [[f"k{k}:{rng.random():.3f}" for k in rng.integers(0, 50, 3)]] * count,
        "pairs": [[{"id": int(k), "weight": 1.5} for k in rng.integers(0, 50, 2)]] * count,
        "emb": [rng.random(4).tolist() for _ in range(count)],
        "seen": pa.array(np.arange(count), pa.timestamp("s")),
        "const": ["x"] * count,
        "os": rng.choice(["ios", "android"], count),
        "context": [{"a": 1}] * count,
        "点位": rng.integers(0, 3, count),
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet", row_group_size=700)
    return str(tmp_path / "log.parquet")


def features(made: Draft) -> dict[str, dict[str, Any]]:
    """The features by column, without what all of them have."""
    found = {one.column: dict(one.feature) for one in made.decisions if one.feature}
    return {
        column: {key: value for key, value in one.items() if key not in ("name", "src", "field")}
        for column, one in found.items()
    }


def left_out(made: Draft) -> dict[str, str]:
    return {one.column: one.why for one in made.decisions if one.role == "left_out"}


def test_ratings_of_movies(movies):
    made = draft(movies)
    assert made.featuremap.table is not None
    assert (made.featuremap.table.entity_id, made.featuremap.table.y_ctr) == ("userId", "liked")
    assert made.featuremap.table.y_cvr is None
    assert made.featuremap.table.token_separator == "|"
    assert features(made) == {
        "movieId": {"encoding": "vocab", "vocab_num_tokens": 1000},
        "genres": {"encoding": "vocab", "vocab_num_tokens": 5, "max_len": 3},
        "age": {"encoding": "vocab", "vocab_num_tokens": 60},
    }
    assert left_out(made)["timestamp"] == "a time, in seconds or parts of them"
    assert left_out(made)["price"].startswith("a measure: ")
    assert "liked is taken as the click" in made.doubts
    assert any("y_cvr is 0 in every row" in one for one in made.doubts)
    assert left_out(made)["userId"].startswith("rows are split by it")
    reason = "tells liked: each of its values stands beside one value of liked only"
    assert left_out(made)["rating"] == reason
    assert f"#   rating: {reason}\n" in made.text
    assert f"rating is left out: {reason} (`features` uses it anyway)" in made.doubts
    assert sum("tells" in one for one in made.doubts) == 1


@pytest.mark.more
def test_what_tells_the_label_only_by_chance_is_used(ads, log):
    for path in (ads, log):
        assert not any("tells" in one.why for one in draft(path).decisions)


@pytest.fixture
def leaks(tmp_path: Path) -> str:
    """A log with columns that are known only after the click or the purchase, and others."""
    rng = random.Random(7)
    names = ["user_id", "item", "shop", "click", "buy", "nonclk", "long_view", "value"]
    names += ["rebate", "landing_page", "play_ms", "score", "coupon", "pages"]

    def rows() -> Iterator[Sequence[Any]]:
        for _ in range(6000):
            click = int(rng.random() < 0.2)
            bought = int(click and rng.random() < 0.3)
            view = int(click and rng.random() < 0.5)
            value = rng.choice([9.5, 19.0, 49.5]) if bought else 0.0
            rebate = rng.randint(0, 1) if click else ""
            page = f"p{rng.randint(1, 9)}" if click else ""
            play = rng.randint(3000, 90_000) if click else rng.randint(0, 2999)
            coupon = "c1" if rng.random() < 0.5 else ""  # before the click
            pages = f"p{rng.randint(1, 5)}|p{rng.randint(6, 9)}" if bought else ""
            shop = f"s{rng.randint(1, 40)}" if rng.random() < 0.999 else "s99"
            row = [f"u{rng.randint(1, 500)}", f"i{rng.randint(1, 900)}", shop, click, bought]
            row += [1 - click, view, value, rebate, page, play, rng.randint(1, 9), coupon, pages]
            yield row

    return written(tmp_path / "leaks.csv", names, rows())


@pytest.mark.more
def test_columns_that_are_known_only_after_a_label_are_left_out(leaks):
    made = draft(leaks)
    assert sorted(features(made)) == ["coupon", "item", "score", "shop"]
    why = left_out(made)
    assert why["nonclk"] == "tells click: each of its values stands beside one value of click only"
    assert why["long_view"].startswith("tells click: it is other than 0 only where click is 1 (")
    assert why["value"].startswith("tells click: it is other than 0 only where click is 1 (")
    assert why["rebate"].startswith("tells click: it is filled only where click is 1 (")
    assert why["landing_page"].startswith("tells click: it is filled only where click is 1 (")
    assert why["pages"].startswith("tells click: it is filled only where click is 1 (")
    assert why["play_ms"].startswith("tells click: its numbers are 0 to 2")
    for name in ("nonclk", "long_view", "value", "rebate", "landing_page", "play_ms"):
        assert any(one.startswith(f"{name} is left out: tells ") for one in made.doubts), name
        assert f"#   {name}: tells click: " in made.text


def test_leaks_of_the_conversion(tmp_path):
    """With clicks in half of the rows, what only buyers have does not follow from the click."""
    rng = random.Random(3)
    buys = [int(rng.random() < 0.3) for _ in range(2000)]
    path = table_of(
        tmp_path,
        user=[f"u{n % 90}" for n in range(2000)],
        click=[int(rng.random() < 0.5) for _ in buys],  # some buy without a click
        buy=buys,
        refund=[int(buy and rng.random() < 0.4) for buy in buys],
        status=["done" if buy else rng.choice(["none", "open"]) for buy in buys],
        x=[rng.choice("abc") for _ in buys],
    )
    made = draft(path)
    assert list(features(made)) == ["x"]
    assert left_out(made)["refund"].startswith("tells buy: it is other than 0 only where buy is 1")
    assert left_out(made)["status"].startswith("tells buy: each of its values")


def test_a_conversion_with_empty_cells_is_named(tmp_path):
    rng = random.Random(4)
    clicks = [int(rng.random() < 0.3) for _ in range(2000)]
    path = table_of(
        tmp_path,
        user=[f"u{n % 90}" for n in range(2000)],
        click=clicks,
        buy=[f"{rng.randint(0, 1)}.0" if one else "" for one in clicks],
        x=[rng.choice("abc") for _ in clicks],
    )
    made = draft(path)
    assert left_out(made)["buy"].startswith("tells click: it is filled only where click is 1")
    assert any("write 0 there to use it as the conversion" in one for one in made.doubts)


@pytest.mark.more
def test_a_feature_that_is_asked_for_is_used(leaks):
    made = draft(leaks, chosen=ChosenColumns(features=("user_id", "long_view")))
    assert sorted(features(made)) == ["coupon", "item", "long_view", "score", "shop", "user_id"]
    assert any(one.startswith("long_view tells click: ") for one in made.doubts)
    with pytest.raises(SourceError, match=r"no column usr \(nearest: user_id\)"):
        draft(leaks, chosen=ChosenColumns(features=("usr",)))


def test_lists_of_times_are_not_tokens_with_values(tmp_path):
    rng = np.random.default_rng(3)
    times = [rng.integers(1.5e9, 1.6e9, 3).tolist() for _ in range(400)]
    texts = [[str(np.datetime64(int(one), "s")) for one in some] for some in times]
    table = {
        "user": [f"u{n % 17}" for n in range(400)],
        "click": rng.integers(0, 2, 400),
        "hist_ts": pa.array(times, pa.list_(pa.timestamp("s"))),
        "hist_at": texts,
        "hist_time": times,
        "written": ["|".join(some) for some in texts],
        "hist_item": rng.integers(0, 50, (400, 3)).tolist(),
    }
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    made = draft(str(tmp_path / "t.parquet"))
    reasons = dict.fromkeys(("hist_ts", "hist_at", "hist_time", "written"))
    assert {name: left_out(made).get(name) for name in reasons} == {
        **dict.fromkeys(reasons, "lists of dates or times"),
        "written": "a date or time",
    }
    assert list(features(made)) == ["hist_item"]


@pytest.mark.more
def test_an_advertising_log(ads):
    made = draft(ads)
    table = made.featuremap.table
    assert table is not None
    assert (table.entity_id, table.y_ctr, table.y_cvr) == ("uid", "clk", "is_purchase")
    assert table.sample_id == "impression_id"
    assert (table.token_separator, table.value_separator) == ("|", ":")
    assert table.missing == ("", "NULL")
    found = features(made)
    assert found["city"] == {"encoding": "vocab", "vocab_num_tokens": 30}
    assert found["tags"] == {"encoding": "vocab", "vocab_num_tokens": 300, "max_len": 6}
    assert found["site"] == {"encoding": "vocab", "vocab_num_tokens": 20}
    assert found["ad_id"]["encoding"] == "vocab"
    assert found["hist"]["encoding"] == "hash"
    assert found["hist"]["hash_bucket"] == 262144
    assert found["hist"]["max_len"] == 40
    assert found["hist"]["use_value"]
    assert set(left_out(made)) == {"follow", "none", "uid"}
    assert any(one.startswith("follow is left out") for one in made.doubts)


def test_parquet_with_lists(log):
    made = draft(log)
    found = features(made)
    assert found["items"] == {"encoding": "vocab", "vocab_num_tokens": 2000, "max_len": 8}
    assert found["weights"]["use_value"]
    assert found["pairs"]["use_value"]
    assert found["pairs"]["max_len"] == 2
    assert "use_value" not in found["os"]
    assert left_out(made) == {
        "user_id": "rows are split by it, so that each of its values in valid is unknown (OOV)",
        "emb": "lists of numbers with fractions: a vector",
        "seen": "a date or time",
        "const": "the same value in every row",
        "context": "cells of type struct<a: int64>",
    }
    assert [one.name for one in made.featuremap.features][-1] == "f0_c10"  # no Latin letter in it


@pytest.mark.more
@pytest.mark.parametrize("table", ["movies", "ads", "log"])
def test_the_text_is_read_and_says_why(table, request):
    path = request.getfixturevalue(table)
    made = draft(path)
    assert parse(made.text, "draft") == made.featuremap
    for line in made.text.splitlines():
        if line.startswith(("  - ", "  y_", "  entity")):
            assert "  # " in line, line
    blocks = list(read_table(path, made.featuremap))
    assert sum(len(one.rows) for one in blocks) == made.rows
    assert not any(one.rejects or one.counts for one in blocks)
    lengths = [
        np.diff(block.tokens[place].offsets).max()
        for block in blocks
        for place, feature in enumerate(made.featuremap.features)
        if not feature.is_multi_hot
    ]
    assert max(lengths) == 1
    assert draft(path).text == made.text


@pytest.mark.more
def test_a_part_expects_more_than_it_holds(movies, ads):
    whole, part = features(draft(ads)), draft(ads, rows=1000)
    assert not part.whole
    assert part.rows == 1000
    assert "about" in part.text
    assert features(part)["hist"]["hash_bucket"] >= whole["hist"]["hash_bucket"]
    assert features(part)["city"] == whole["city"]
    assert draft(movies, rows=4000).rows == draft(movies, rows=None).rows == 4000


def rows_with(**columns: Sequence[Any]) -> tuple[list[str], Iterator[Sequence[Any]]]:
    return list(columns), zip(*columns.values(), strict=True)


def table_of(tmp_path: Path, **columns: Sequence[Any]) -> str:
    names, rows = rows_with(**columns)
    return written(tmp_path / "t.csv", names, rows)


ONES = [0, 1] * 100
AB = ["a", "b", "b", "a"] * 50
USERS = [f"u{n % 17}" for n in range(200)]


def test_what_is_not_found_is_asked_for(tmp_path):
    path = table_of(tmp_path, who=USERS, seen=ONES, x=AB)
    with pytest.raises(ReviewNeeded) as raised:
        draft(path)
    assert raised.value.exit_code == 3
    assert "no column is plainly the click, and none the entity" in str(raised.value)
    assert "`click` (a column of 0 and 1: seen)" in str(raised.value)
    made = draft(path, chosen=ChosenColumns(click="seen", entity="who"))
    assert list(features(made)) == ["x"]
    with pytest.raises(ReviewNeeded, match="plainly the entity"):
        draft(path, chosen=ChosenColumns(click="seen"))


def test_a_chosen_column_has_to_serve(tmp_path):
    path = table_of(tmp_path, user=USERS, click=ONES, stars=[n % 5 for n in range(200)])
    with pytest.raises(SourceError, match=r"no column clik \(nearest: click\)"):
        draft(path, chosen=ChosenColumns(click="clik"))
    with pytest.raises(SourceError, match=r"column stars cannot be a label: 120 of 200 values"):
        draft(path, chosen=ChosenColumns(conversion="stars"))


def test_conversions_alone_are_no_clicks(tmp_path):
    path = table_of(tmp_path, user=USERS, purchase=ONES, x=AB)
    with pytest.raises(ReviewNeeded, match="purchase"):
        draft(path)


def test_a_conversion_that_never_happens_counts(tmp_path):
    path = table_of(tmp_path, user=USERS, click=ONES, buy=[0] * 200, x=AB)
    made = draft(path)
    assert made.featuremap.table is not None
    assert made.featuremap.table.y_cvr == "buy"
    assert "buy has only zeros in the sample" in made.doubts


def test_each_list_has_its_own_separator(tmp_path):
    lists = [f"a{n % 7};b{n % 5}" for n in range(200)]
    pipes = [one.replace(";", "|") for one in lists]
    weights = [f"a{n % 7}=0.5,b{n % 5}=2" for n in range(200)]
    path = table_of(tmp_path, user=USERS, click=ONES, x=pipes, y1=pipes, z=lists, w=weights)
    made = draft(path)
    found = features(made)
    table = made.featuremap.table
    assert table is not None
    assert (table.token_separator, table.value_separator) == ("|", "=")
    assert "token_separator" not in found["x"]
    assert found["z"]["token_separator"] == ";"
    assert (found["w"]["token_separator"], found["w"]["use_value"]) == (",", True)
    (block,) = read_table(path, made.featuremap)
    texts = dict(zip([one.field for one in made.featuremap.features], block.tokens, strict=True))
    assert texts["z"].tokens.to_pylist()[:4] == [b"a0", b"b0", b"a1", b"b1"]
    assert texts["w"].tokens.to_pylist()[:2] == [b"a0", b"b0"]
    assert texts["w"].values[:2].tolist() == [0.5, 2.0]


@pytest.mark.parametrize(
    "cells",
    [
        [f"Movie {n % 300}, The ({1950 + n % 60})" for n in range(3000)],
        [f"Mozilla/5.0 (X11; Linux; rv {n % 9}) Gecko/{n % 7}" for n in range(3000)],
    ],
    ids=["titles", "user agents"],
)
def test_titles_and_user_agents_are_not_lists(cells):
    assert shape_of_cells("title", cells).separator is None


def test_names_of_features_are_their_own(tmp_path):
    path = table_of(
        tmp_path,
        user=USERS,
        click=ONES,
        **dict.fromkeys(("a b", "a-b", "a_b_idx"), AB),
    )
    names = [one.name for one in draft(path).featuremap.features]
    assert len(set(names)) == 3
    assert names[0] == "f0_a_b"


def test_hostile_names_stay_in_their_line(tmp_path):
    odd = "x\n: [\x1b[2J # é {"
    path = table_of(tmp_path, user=USERS, click=ONES, **{odd: ["a#b", "c: d", "c: d", "a#b"] * 50})
    made = draft(path)
    assert [one.field for one in made.featuremap.features] == [odd]
    assert "\x1b" not in made.text


def test_a_table_without_features(tmp_path):
    path = table_of(tmp_path, user=[f"{n}.5" for n in range(200)], click=ONES)
    with pytest.raises(ReviewNeeded):
        draft(path, chosen=ChosenColumns(entity="click"))
    empty = tmp_path / "empty.csv"
    empty.write_text("user,click,x\n")
    with pytest.raises(SourceError, match="no rows"):
        draft(str(empty))


SHAPES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("tags", ["a|b", "c", "a|d"] * 9, {"separator": "|"}),
    ("tags", ["a, b", "c", "a, d"] * 9, {"separator": ", "}),
    ("ids", ["1 2 3", "4 5", "6"] * 9, {"separator": " "}),
    ("words", ["red house", "big tree", "old car"] * 9, {}),
    ("hist", ["1:0.5,2:1", "3:2.25", ""] * 9, {"separator": ",", "value_separator": ":"}),
    ("w", ["a:0.5", "b:1", "c:-2e-3"] * 9, {"value_separator": ":"}),
    ("shop", [f"shop:{n}" for n in range(90)], {}),
    ("at", ["12:30", "09:15", "23:59"] * 9, {}),
    ("amount", ["1,234", "2,345,678", "12"] * 9, {"number": True}),
    ("price", ["1.5", "2", "3.25"] * 9, {"number": True, "fraction": True}),
    ("n", ["1.0", "2.0", "nan"] * 9, {"number": True}),
    ("site", ["www.a.com", "b.org"] * 9, {}),
    ("range", ["0", "(0,10]", "(10,50]", "500+"] * 9, {}),
    ("range", ["[0;1)", "[1;2)", "{2;9]"] * 9, {}),
    ("names", ["f(x),g(y)", "h", "f(x)"] * 9, {"separator": ","}),
    ("item", ["20459911", "20200101", "31415926", "99999999"] * 9, {"number": True}),
    ("code", ["110101", "110102", "110105"] * 9, {"number": True}),
    ("hourmin", ["1905", "2359", "0"] * 9, {"number": True}),
]


@pytest.mark.parametrize(("name", "cells", "expected"), SHAPES, ids=[one[0] for one in SHAPES])
def test_shapes_of_cells(name, cells, expected):
    shape = shape_of_cells(name, [cell for cell in cells if cell])
    got = {
        key: getattr(shape, key) for key in ("separator", "value_separator", "number", "fraction")
    }
    assert {key: value for key, value in got.items() if value} == expected
    assert not shape.unread


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("day", ["2020-01-02", "2021-12-31"]),
        ("when", ["2020-01-02 03:04:05", "2021-12-31T00:00"]),
        ("create_time", ["1600000000", "1600000300"]),
        ("ts", ["1600000000123", "1600000300456"]),
        ("list", ["[1, 2]", "[3]"]),
        ("date", ["20220408", "20220409"]),
        ("p", ["20220408", "20231231", "20200229"]),
        ("part", ["2022040823", "2022040900"]),
        ("hour", ["14102100", "14102101", "14103023"]),
        ("h", [f"1410{day}{hour:02d}" for day in (21, 22, 30) for hour in range(24)]),
        ("day", ["220408", "220409"]),
        ("moment", ["20220408193000.0", "20220408193001.0"]),
        ("title", ["The long and winding road to the old house", "A tale of two or three cities"]),
        ("nothing", []),
    ],
)
def test_shapes_that_are_no_tokens(name, cells):
    assert shape_of_cells(name, cells).unread


@given(st.lists(st.binary(max_size=2)), st.integers(1, 9))
def test_counts_of_distinct_tokens(tokens, parts):
    found = Distinct()
    for part in range(parts):
        found.add(pa.array(tokens[part::parts], pa.large_binary()))
    counts = Counter(tokens)
    assert found.exact
    assert found.distinct == len(counts)
    assert found.once == sum(count == 1 for count in counts.values())
    assert found.occurrences == len(tokens)
    most = [count for _, count in counts.most_common()]
    half = next((n for n in range(len(most)) if sum(most[: n + 1]) * 2 >= len(tokens)), -1) + 1
    assert found.holding(0.5) == half


def test_counts_beyond_the_memory_are_estimates():
    found = Distinct(max_hashes=1000)
    for part in range(20):
        numbers = [b"%d" % (n % 30_000) for n in range(part * 4000, part * 4000 + 4000)]
        found.add(pa.array(numbers, pa.large_binary()))
    assert not found.exact
    assert abs(found.distinct - 30_000) < 3_000
    assert abs(found.holding(0.5) - 11_250) < 2_500  # 20,000 of them three times, the others twice


def test_names_and_numbers():
    assert [words_of(one) for one in ("userId", "User ID", "is-click", "C14")] == [
        "user_id",
        "user_id",
        "is_click",
        "c14",
    ]
    numbers = [round_up(n) for n in (0, 7, 20, 21, 101, 1000, 1001, 78_300)]
    assert numbers == [1, 7, 20, 25, 120, 1000, 1200, 80_000]
    assert all(round_up(n) >= n for n in range(1, 5000))


def test_yaml_of_any_separator(tmp_path):
    """Separators that mean something in YAML come back as they are."""
    for mark in ("|", ", ", "\x01"):
        lists = [f"a{n % 7}{mark}b{n % 5}" for n in range(200)]
        path = written(
            tmp_path / "t.csv",
            *rows_with(user=USERS, click=ONES, x=lists),
            delimiter=";",
        )
        made = draft(path)
        assert yaml.safe_load(made.text)["table"]["token_separator"] == mark


odd_names = st.sampled_from(
    ["a", "A", "a_idx", "tags", "time", "价格", "", "x|y", "#", "user id", "is_buy", "1", "a.b"]
)
odd_cells = st.one_of(
    st.sampled_from(["", "NULL", "0", "1", "1.5", "a|b", "1:2,3:4", "2020-01-01", "[1]", "nan"]),
    st.text(st.characters(exclude_characters="\r\n\x00", exclude_categories=["Cs"]), max_size=5),
)


@given(
    st.lists(odd_names, max_size=4),
    st.lists(st.lists(odd_cells, min_size=4, max_size=4), min_size=1, max_size=9),
)
@settings(max_examples=40)
def test_any_table_is_drafted_or_refused(tmp_path_factory, names, rows):
    repeated = [rows[place % len(rows)] for place in range(60)]
    cells = ([f"u{n % 9}", n % 2, *row[: len(names)]] for n, row in enumerate(repeated))
    path = tmp_path_factory.mktemp("t") / "t.csv"
    table = written(path, ["user", "click", *names], cells)
    try:
        made = draft(table)
    except IngotError:
        return
    assert parse(made.text, "draft") == made.featuremap
    assert sum(len(one.rows) for one in read_table(table, made.featuremap)) <= 60


def table_by_time(path: Path, rows: int, **columns: Any) -> str:
    base: dict[str, Any] = {"user": [f"u{row % 500}" for row in range(rows)]}
    base["click"] = [int(row * 7919 % 3 == 0) for row in range(rows)]
    pq.write_table(pa.table(base | columns), path, row_group_size=5000)
    return str(path)


@pytest.mark.parametrize("kind", ["text", "bool", "dictionary"])
def test_a_column_of_few_values_and_nulls_is_compared_with_labels(tmp_path, kind):
    values = pa.array([None if row % 11 == 0 else row % 2 == 0 for row in range(20_000)])
    if kind != "bool":
        values = values.cast(pa.string())
    values = values.dictionary_encode() if kind == "dictionary" else values
    made = draft(table_by_time(tmp_path / "t.parquet", 20_000, vip=values))
    assert features(made) == {"vip": {"encoding": "vocab", "vocab_num_tokens": 2}}


@pytest.mark.more
def test_a_sequence_that_is_short_at_the_beginning_is_a_list(tmp_path):
    rows = 40_000
    grown = ["|".join(f"s{(row + k) % 90}" for k in range(row * 8 // rows)) for row in range(rows)]
    path = table_by_time(tmp_path / "t.parquet", rows, seq=grown, item=["a", "b"] * 20_000)
    assert features(draft(path))["seq"]["max_len"] == 7
    part = features(draft(path, rows=6000))["seq"]
    assert (part["max_len"], part["encoding"]) == (7, "vocab")


@pytest.mark.more
def test_ids_of_single_rows_are_left_out_and_those_of_items_are_not(tmp_path):
    rows = 5000
    names = ["req_id", "trace_id", "uuid", "row_hash", "event_key", "requestToken_id"]
    columns: dict[str, Any] = {name: [f"{name}{row * 7}" for row in range(rows)] for name in names}
    columns["item_id"] = [f"i{row % 4000}" for row in range(rows)]
    path = table_by_time(tmp_path / "t.parquet", rows, **columns)
    made = draft(path)
    assert set(features(made)) == {"item_id"}
    assert all("nearly every row has its own" in left_out(made)[name] for name in names)
    part = draft(path, rows=1000)
    assert "item_id" in features(part), "items may come again in rows that are not sampled"


@pytest.mark.parametrize(
    ("wanted", "size"),
    [(1, 64), (64, 64), (65, 128), (128, 128), (129, 256), (1 << 23, 1 << 23), (1 << 24, 1 << 23)],
)
def test_sizes_of_buckets(wanted, size):
    assert bucket_size(wanted) == size


def test_a_hybrid_has_two_buckets_for_each_token_of_its_tail_and_head(tmp_path):
    """3,000 tokens, of which 100 hold nine cells of ten."""
    cells = [f"h{n % 100}" for n in range(30_000)] + [f"t{n}" for n in range(2900)]
    rows = ((f"u{n % 50}", n % 2, cell) for n, cell in enumerate(cells))
    made = draft(written(tmp_path / "t.csv", ["user_id", "click", "item"], rows))
    (item,) = [one for one in made.featuremap.features if one.field == "item"]
    assert (item.encoding, item.vocab_num_tokens, item.hash_bucket) == ("hybrid", 100, 8192)


def test_a_profile_counts_every_cell(tmp_path):
    names = ["user", "click", "tags"]
    first = [("a", 0, "x:1|y:2"), ("b", 1, ""), ("a", "true", "NULL"), ("c", 7, "x:1|z:q|y:3")]
    written(tmp_path / "0.csv", names, iter(first * 10))
    written(tmp_path / "1.csv", names, iter([("d", 0, "x:5|w:6")] * 200))
    part = take_sample(str(tmp_path / "*.csv"), 60)
    assert (part.rows, part.whole, part.rejects) == (60, False, 0)
    whole = take_sample(str(tmp_path / "*.csv"), None)
    assert (whole.rows, whole.whole) == (240, True)
    user, click, tags = whole.profiles
    assert (user.rows, user.missing, user.tokens.distinct, user.tokens.once) == (240, 0, 4, 0)
    assert (user.tokens.occurrences, user.tokens.holding(0.9), user.length(1.0)) == (240, 2, 1)
    assert click.labels == (210, 20, 10)
    assert not click.only_labels
    assert (tags.shape.separator, tags.shape.value_separator) == ("|", ":")
    assert tags.missing_texts["NULL"] == 10
    assert (tags.missing, tags.odd, tags.tokens.distinct) == (20, 10, 3)
    assert tags.lengths[:4].tolist() == [20, 0, 220, 0]
    assert (tags.length(0.05), tags.length(0.5), tags.length(1.0)) == (0, 2, 2)
