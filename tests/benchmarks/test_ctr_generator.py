"""The generator of a set like Ali-CCP: its lines, its rates, its reproducibility, its signal."""

import importlib.util
import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "ctr" / "generate.py"
SKELETON, COMMON = "sample_skeleton_train.csv", "common_features_train.csv"
TOKEN = r"[0-9_]+\x02[0-9]+\x03[0-9]+\.[0-9]{1,5}"
LIST = rf"(?:{TOKEN}(?:\x01{TOKEN})*)?"
SCALE = 0.0005  # 21,150 rows of 365 entities


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ctr_generate", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ctr_generate"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(generator, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("generated")
    assert generator.generate(out, scale=SCALE, seed=3, signal=True) == (21_150, 365)
    return out


def rows(path: Path) -> list[list[str]]:
    return [line.split(",") for line in path.read_text("ascii").removesuffix("\n").split("\n")]


def fields(feature_list: str) -> Counter[str]:
    tokens = feature_list.split("\x01") if feature_list else []
    assert len({token.partition("\x03")[0] for token in tokens}) == len(tokens)
    return Counter(token.partition("\x02")[0] for token in tokens)


def test_lines_are_those_of_the_published_files(made):
    skeleton = re.compile(rf"[0-9]+,[01],[01],[0-9a-f]{{16}},[0-9]+,{LIST}\n")
    common = re.compile(rf"[0-9a-f]{{16}},[0-9]+,{LIST}\n")
    for name, form in ((SKELETON, skeleton), (COMMON, common)):
        with (made / name).open(encoding="ascii", newline="") as file:
            assert all(form.fullmatch(line) for line in file)


@pytest.mark.more
def test_counts_ids_and_sessions_hold_together(made):
    entities = {index: (int(number), tokens) for index, number, tokens in rows(made / COMMON)}
    assert len(entities) == 365
    assert all(number == fields(tokens).total() for number, tokens in entities.values())
    seen, together = Counter(), 0
    before = ""
    for place, (sample, *_, index, number, tokens) in enumerate(rows(made / SKELETON), 1):
        assert (int(sample), int(number)) == (place, fields(tokens).total())
        together += index == before
        before = index
        seen[index] += 1
    assert seen.keys() == entities.keys()
    assert 0.75 < together / seen.total() < 0.9  # sessions of up to 8 rows


@pytest.mark.more
def test_lengths_gaps_and_rates_are_those_of_the_published_set(made):
    entities = {index: fields(tokens) for index, _, tokens in rows(made / COMMON)}
    total, missing, clicks, count = Counter(), Counter(), 0, 0
    for _, click, _, index, _, tokens in rows(made / SKELETON):
        own = fields(tokens) + entities[index]
        total.update(own)
        missing.update({"508", "509", "702", "853", "216", "126", "121"} - own.keys())
        clicks += click == "1"
        count += 1
    means = {field: number / count for field, number in total.items()}
    # A few very active entities weigh much in so small a part.
    assert sum(means.values()) == pytest.approx(629.4, rel=0.2)
    assert means["210"] == pytest.approx(6.1, rel=0.05)
    assert means["853"] == pytest.approx(1.4, rel=0.1)
    shares = {field: number / count for field, number in missing.items()}
    known = {"508": 0.30, "509": 0.78, "702": 0.78, "853": 0.59, "216": 0.29}
    assert shares == pytest.approx(known | {"126": 0.58, "121": 0.13}, abs=0.1)
    assert clicks / count == pytest.approx(0.03887, rel=0.15)


def test_the_same_seed_gives_the_same_bytes(generator, made, tmp_path):
    for folder, seed in (("again", 3), ("other", 4)):
        generator.generate(tmp_path / folder, scale=SCALE, seed=seed, signal=True)
    for name in (SKELETON, COMMON):
        wanted = (made / name).read_bytes()
        assert (tmp_path / "again" / name).read_bytes() == wanted
        assert (tmp_path / "other" / name).read_bytes() != wanted


def lift_of_a_crossed_category(folder: Path) -> float:
    """The click rate of rows with field 508, over that of the others."""
    clicks, counts = Counter(), Counter()
    for _, click, *_, tokens in rows(folder / SKELETON):
        known = "\x01508\x02" in tokens
        clicks[known] += click == "1"
        counts[known] += 1
    return (clicks[True] / counts[True]) / (clicks[False] / counts[False])


def test_labels_follow_the_features_where_they_shall(generator, made, tmp_path):
    generator.generate(tmp_path, scale=SCALE, seed=3, signal=False)
    assert lift_of_a_crossed_category(made) > 2
    assert 1 / 1.5 < lift_of_a_crossed_category(tmp_path) < 1.5


@pytest.mark.parametrize("size", [1, 4, 98, 13_000, 5_000_000])
def test_drawn_tokens_lie_within_their_field(generator, size):
    ends = generator.np.array([0.0, 0.5, math.nextafter(1.0, 0.0)])
    first, middle, last = generator.zipf(ends, size).tolist()
    assert first == 0 <= middle <= last == size - 1


def test_no_two_tokens_of_a_field_have_one_id(generator):
    texts = generator.Texts()
    for field, number in generator.FIELDS.items():
        size = min(generator.SIZES[field], 20_000)
        ranks = generator.np.arange(size)
        made = texts._tokens(ranks * 0 + number, ranks, ranks * 0).to_pylist()
        assert len(set(made)) == size


@pytest.mark.parametrize("scale", ["0", "1.5", "nan"])
def test_a_scale_that_means_nothing_is_refused(tmp_path, scale):
    argv = [sys.executable, SCRIPT, tmp_path / "out", "--scale", scale]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("--scale ")
    assert not (tmp_path / "out").exists()
