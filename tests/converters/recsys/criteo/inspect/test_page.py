"""The page of figures."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ingot.converters.output.figures import format_percent
from ingot.converters.recsys.criteo.inspect.folder import inspect
from ingot.converters.recsys.criteo.inspect.page import (
    bucket_label,
    coverage_steps,
    render_inspect_page,
)
from tests.converters.page_parts import Parts
from tests.converters.recsys.criteo.inspect.written import Raw, draw, write


@pytest.fixture(params=["stats.json", "arrays"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = write(tmp_path / "out", [draw("day_0", 300, 1), draw("day_1", 200, 2)], threshold=2)
    if request.param == "arrays":
        (root / "stats.json").unlink()
    return root


def test_it_stands_alone_and_shows_every_column(folder):
    told = inspect(folder)
    page = render_inspect_page(told)
    parts = Parts(page)
    assert parts.open == []
    assert not parts.tags & {"script", "link", "img", "iframe", "object", "form", "a"}
    assert not {name for name in parts.attributes if name.startswith("on")}
    assert not parts.attributes & {"src", "href"}
    assert "http" not in page.replace("http-equiv", "")
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert render_inspect_page(told) == page
    for one in told.sparse:
        assert one.name in parts.text
        assert format_percent(one.covered(10)) in parts.text
        assert all(f"{entry.count:,}" in parts.text for entry in one.top)
        assert all(entry.raw is None or entry.raw in parts.text for entry in one.top)
    for dense in told.dense:
        assert dense.name in parts.text
    for part in told.parts:
        assert format_percent(part.label_rate) in parts.text
    assert json.dumps(told.num_embeddings) in parts.text
    assert ("Rejected lines" in parts.text) == (told.source == "stats.json")


def test_what_is_drawn_lies_within(folder):
    page = render_inspect_page(inspect(folder))
    parts = Parts(page)
    widths = [float(one.split("width: ")[1].rstrip("%")) for one in parts.styles if "%" in one]
    assert len(widths) >= 30
    assert 0 <= min(widths) <= max(widths) == 100
    points = [line.split('points="')[1].split('"')[0] for line in page.splitlines()
              if "<polyline" in line]  # fmt: skip
    assert len(points) == 26
    for one in points:
        places = np.array([pair.split(",") for pair in one.split()], float)
        assert ((places >= 0) & (places <= 100)).all()
        assert (np.diff(places[:, 0]) >= 0).all()
        assert (np.diff(places[:, 1]) <= 0).all()
        assert places[-1, 1] == 0


def test_texts_of_the_folder_are_text(tmp_path):
    name = "<img src=x onerror=alert(1)>"
    root = write(tmp_path / name, [draw(name, 9, 1)])
    stats = json.loads((root / "stats.json").read_bytes())
    stats["parts"][0]["rejects"] = {"<script>alert(1)</script>": 3}
    stats["parts"][0]["file"] = "<b>"
    (root / "stats.json").write_text(json.dumps(stats), encoding="utf-8")
    parts = Parts(render_inspect_page(inspect(root)))
    assert not parts.tags & {"script", "img"}
    for text in (name, "<script>alert(1)</script>", "<b>"):
        assert text in parts.text
    (root / "stats.json").unlink()
    assert name in Parts(render_inspect_page(inspect(root))).text


@pytest.mark.more
def test_little_and_nothing_can_be_drawn(tmp_path):
    for rows in (0, 1):
        raw = Raw("day_0", [1] * rows, [[None] * 13] * rows, [[None] * 26] * rows)
        root = write(tmp_path / str(rows), [raw])
        assert Parts(render_inspect_page(inspect(root))).open == []
    shutil.rmtree(root / "vocab")
    assert Parts(render_inspect_page(inspect(root, top=0))).open == []


def test_a_column_that_is_not_counted(folder):
    (folder / "stats.json").unlink(missing_ok=True)
    ids = np.load(folder / "day_0_sparse.npy")
    ids[0, 7] = -1
    np.save(folder / "day_0_sparse.npy", ids)
    assert "not counted: cat_7" in Parts(render_inspect_page(inspect(folder))).text


@pytest.mark.parametrize(
    ("bound", "counted", "said"),
    [
        ("negative", False, "below 0"),
        ("0", False, "0"),
        ("1", False, "1"),
        ("2", False, "2 to 3"),
        ("1024", False, "1,024 to 2,047"),
        ("0", True, "0 to 1"),
        ("7", True, "7 to 8"),
    ],
)
def test_buckets_are_named(bound, counted, said):
    assert bucket_label(bound, counted=counted) == said


def test_steps_end_below_all_ids(folder):
    told = inspect(folder)
    most = max(one.coverage[-1][0] for one in told.sparse)
    assert coverage_steps(told.sparse) == [one for one in (1, 10, 100, 1000) if one <= most]
