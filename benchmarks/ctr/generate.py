"""A made-up raw data set with the shape of Ali-CCP's train set, at a part of its size.

    python benchmarks/ctr/generate.py OUT --scale 0.05 [--seed 7] [--signal]

Writes `sample_skeleton_train.csv` and `common_features_train.csv` as the public set has them: no
header, tokens joined by U+0001, a token is field U+0002 id U+0003 value. Scale 1 is the published
train set: 42,300,135 rows, 730,600 entities, 629 tokens a row after the join, a click on 3.887 % of
the rows, a purchase on 0.02136 %, 230 purchases without a click; lengths and missing shares of the
fields likewise. A smaller scale is a sample of the entities with their rows, so the number of
different tokens falls more slowly than the number of rows, as it does in a sample of a real set.

Not published, and so assumed here:

* frequencies: Zipf-Mandelbrot, exponent 0.9, shift 10. With 5,000,000 items (205) that gives 4.37
  million different ones in the full set, the published number being 4.3 million. An item has its
  category (206), shop (207), brand (216) and intentions (210) for good; the crossed fields (508,
  509, 702, 853) hold tokens of their own for these, drawn for each pair of entity and token;
* the sizes of the other vocabularies (`SIZES`);
* activity: rows an entity log-normal with sigma 0.8, so is the length of its history, correlation
  0.5: active entities have longer histories, and a line of the common file has 446 tokens;
* order: an entity's rows come in sessions of up to 8, sessions in random order;
* values of histories and crossed fields: ln(1 + n) with five decimals, n heavy-tailed.

`--signal` lets clicks and purchases depend on the item's category and shop, the entity's profile
and the crossed fields, at the same rates; without it they are independent of everything. The same
scale and seed give the same bytes with the same versions of numpy and pyarrow. Memory is bounded by
a block, plus some 100 bytes an entity and 9 a session.
"""

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ROWS, ENTITIES = 42_300_135, 730_600
CTR, PURCHASES = 0.03887, 0.0002136  # shares of the rows
ANOMALIES = 230 / ROWS  # purchases without a click
EXPONENT, SHIFT = 0.9, 10.0
SPREAD, TOGETHER = 0.8, 0.5  # of activity and of history lengths, in logarithms
SESSION = 8
SKELETON_BLOCK, COMMON_BLOCK = 65_536, 2_048  # rows
MOST = 3_000  # the largest n of a value ln(1 + n)

SIZES = {  # tokens of each field in the full set; crossed fields have those of what they cross
    "101": ENTITIES,
    "109_14": 13_000,
    "110_14": 3_000_000,
    "121": 98,
    "122": 14,
    "124": 3,
    "125": 8,
    "126": 4,
    "127": 4,
    "127_14": 600_000,
    "128": 3,
    "129": 5,
    "150_14": 130_000,
    "205": 5_000_000,
    "206": 13_000,
    "207": 1_200_000,
    "210": 110_000,
    "216": 420_000,
    "301": 4,
    "508": 13_000,
    "509": 1_200_000,
    "702": 420_000,
    "853": 110_000,
}
FIELDS = {field: number for number, field in enumerate(SIZES)}
# Mean tokens a joined row, and how many more are drawn, as those drawn twice are left out.
HISTORY = {
    "110_14": (250.1, 1.05),
    "127_14": (153.7, 1.053),
    "150_14": (135.9, 1.068),
    "109_14": (69.0, 1.08),
}
PROFILE = ("121", "122", "124", "125", "127", "128")  # missing together
NO_PROFILE, NO_126, NO_129, NO_USER = 0.13, 0.58, 0.36, 0.002
NO_BRAND, NO_ITEM = 0.29, 66 / ROWS
INTENTIONS, DRAWN_INTENTIONS = 6.1, 6.44  # mean of an item; some are drawn twice or cut off
MOST_INTENTIONS = 20
CROSSED = {"508": ("206", 0.70), "509": ("207", 0.22)}  # what it crosses, share of rows
CROSSED_BRAND = 0.22 / (1 - NO_BRAND)
CROSSED_INTENTIONS = 1.4 / INTENTIONS
NO_CROSSED_INTENTIONS = 0.52  # with those where each is unknown for itself: the published 0.59


@dataclass(frozen=True, kw_only=True)
class Entities:
    """What is known of every entity, by its number.

    Attributes:
        rows: int64[n], lines of the skeleton.
        activity: float64[n], a normal variate that rows and history lengths follow.
        profile: int64[n, 8], numbers of the tokens of 121, 122, 124, 125, 127, 128, 126, 129; -1
            where there is none.
    """

    rows: Ints
    activity: Floats
    profile: Ints


@dataclass(frozen=True, kw_only=True)
class Column:
    """Tokens of one field: those of row i are `ranks[sum(lengths[:i]):][:lengths[i]]`.

    Attributes:
        field: its name.
        lengths: int64[rows].
        ranks: int64[tokens], numbers of tokens in the order of their frequency.
        counts: int64[tokens], n of the value ln(1 + n); 0 for 1.0.
    """

    field: str
    lengths: Ints
    ranks: Ints
    counts: Ints


def zipf(uniform: Floats, size: int) -> Ints:
    """Numbers of tokens, 0 the most frequent, from uniform variates."""
    power = 1.0 - EXPONENT
    low, high = (1.0 + SHIFT) ** power, (size + 1.0 + SHIFT) ** power
    places: Floats = (low + uniform * (high - low)) ** (1.0 / power) - SHIFT - 1.0
    drawn: Ints = np.minimum(places.astype(np.int64), size - 1)
    return drawn


def mixed(*keys: Ints | int) -> NDArray[np.uint64]:
    """A hash of numbers, element by element (splitmix64)."""
    state = np.zeros(1, np.uint64)
    with np.errstate(over="ignore"):
        for key in keys:
            state = np.asarray(key).astype(np.uint64) + state * np.uint64(0x9E3779B97F4A7C15)
            state = state + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return state


def unit(*keys: Ints | int) -> Floats:
    """A hash of numbers as a uniform variate in [0, 1)."""
    shares: Floats = (mixed(*keys) >> np.uint64(11)).astype(np.float64) / 2.0**53
    return shares


def heavy_tailed(uniform: Floats) -> Ints:
    """The n of values ln(1 + n): at least 1, half of them 1, up to `MOST`."""
    return np.minimum((1.0 - uniform) ** (-1.0 / 1.1), MOST).astype(np.int64)


def make_entities(count: int, rows: int, seed: int) -> Entities:
    rng = np.random.default_rng([seed, 0])
    activity = rng.standard_normal(count)
    weights = np.exp(SPREAD * activity)
    others = rng.multinomial(rows - count, weights / weights.sum())
    names = (*PROFILE, "126", "129")
    profile = np.stack([zipf(rng.random(count), SIZES[name]) for name in names], axis=1)
    profile[rng.random(count) < NO_PROFILE, : len(PROFILE)] = -1
    for place, missing in ((-2, NO_126), (-1, NO_129)):
        profile[rng.random(count) < missing, place] = -1
    return Entities(rows=1 + others, activity=activity, profile=profile)


def sessions(entities: Entities, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """The entity and the number of rows of every session, in the order of the file."""
    counts = -(-entities.rows // SESSION)
    owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    sizes = np.full(len(owners), SESSION, dtype=np.int8)
    sizes[np.cumsum(counts) - 1] = entities.rows - SESSION * (counts - 1)
    order = np.random.default_rng([seed, 1]).permutation(len(owners))
    return owners[order], sizes[order]


def optional(field: str, ranks: Ints, present: NDArray[np.bool_], counts: Ints | int = 0) -> Column:
    """A field of one token a row, where there is one."""
    given = np.broadcast_to(counts, ranks.shape)
    return Column(
        field=field, lengths=present.astype(np.int64), ranks=ranks[present], counts=given[present]
    )


def history(field: str, activity: Floats, rng: np.random.Generator) -> Column:
    """The history of a block of entities: no token twice."""
    mean, more = HISTORY[field]
    # A mean over rows, not over entities: active ones have more rows.
    mean *= more / math.exp(TOGETHER * SPREAD * SPREAD + SPREAD * SPREAD / 2)
    own = math.sqrt(1 - TOGETHER * TOGETHER) * rng.standard_normal(len(activity))
    wanted = mean * np.exp(SPREAD * (TOGETHER * activity + own))
    lengths = (wanted + rng.random(len(activity))).astype(np.int64)
    ranks = zipf(rng.random(int(lengths.sum())), SIZES[field])
    owners = np.repeat(np.arange(len(lengths)), lengths)
    first = first_of_each(owners, ranks)
    counts = heavy_tailed(rng.random(len(ranks)))
    lengths = np.bincount(owners[first], minlength=len(lengths))
    return Column(field=field, lengths=lengths, ranks=ranks[first], counts=counts[first])


def first_of_each(owners: Ints, ranks: Ints) -> NDArray[np.bool_]:
    """True where a (row, token) stands for the first time."""
    keys = (owners << 32) | ranks
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    again = np.zeros(len(keys), dtype=bool)
    again[order[1:][ordered[1:] == ordered[:-1]]] = True
    return ~again


def common_columns(entities: Entities, numbers: Ints, seed: int) -> list[Column]:
    """The fields of the common file for some entities, by their numbers."""
    rng = np.random.default_rng([seed, 2, int(numbers[0])])
    columns = [optional("101", numbers, rng.random(len(numbers)) >= NO_USER)]
    for place, field in enumerate((*PROFILE, "126", "129")):
        ranks = entities.profile[numbers, place]
        columns.append(optional(field, ranks, ranks >= 0))
    activity = entities.activity[numbers]
    columns += [history(field, activity, rng) for field in HISTORY]
    return columns


def skeleton_columns(owners: Ints, first: int, seed: int) -> list[Column]:
    """The fields of the skeleton for rows of these entities; `first` is the number of the first."""
    rng = np.random.default_rng([seed, 3, first])
    count = len(owners)
    item = zipf(rng.random(count), SIZES["205"])
    always = np.ones(count, dtype=bool)
    columns = [optional("205", item, rng.random(count) >= NO_ITEM)]
    parts = {name: zipf(unit(item, int(name)), SIZES[name]) for name in ("206", "207", "216")}
    columns += [optional(name, parts[name], always) for name in ("206", "207")]
    branded = unit(item, 1) >= NO_BRAND
    columns.append(optional("216", parts["216"], branded))
    columns.append(optional("301", rng.integers(0, SIZES["301"], count), always))
    for field, (crosses, share) in CROSSED.items():
        columns.append(crossed(field, owners, parts[crosses], share, always))
    columns.append(crossed("702", owners, parts["216"], CROSSED_BRAND, branded))
    return columns + intentions(owners, item)


def crossed(
    field: str, owners: Ints, ranks: Ints, share: float, possible: NDArray[np.bool_]
) -> Column:
    """A crossed field: whether an entity knows a token, and how well, is the pair's for good."""
    present = possible & (unit(owners, ranks, int(field)) < share)
    return optional(field, ranks, present, heavy_tailed(unit(owners, ranks, int(field), 1)))


def intentions(owners: Ints, item: Ints) -> list[Column]:
    """Fields 210 and 853: several tokens an item, and those of them that the entity knows."""
    drawn = unit(item, 210)
    # Geometric from 1 on; what the cut takes away is small.
    lengths = 1 + (np.log1p(-drawn) / math.log(1 - 1 / DRAWN_INTENTIONS)).astype(np.int64)
    lengths = np.minimum(lengths, MOST_INTENTIONS)
    rows = np.repeat(np.arange(len(item)), lengths)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    ranks = zipf(unit(item[rows], place, 210), SIZES["210"])
    first = first_of_each(rows, ranks)
    rows, ranks = rows[first], ranks[first]
    some = unit(owners, item, 853) >= NO_CROSSED_INTENTIONS
    share = CROSSED_INTENTIONS / (1 - NO_CROSSED_INTENTIONS)
    known = some[rows] & (unit(owners[rows], ranks, 853) < share)
    lengths = np.bincount(rows, minlength=len(item))
    own = np.bincount(rows[known], minlength=len(item))
    counts = heavy_tailed(unit(owners[rows[known]], ranks[known], 853, 1))
    return [
        Column(field="210", lengths=lengths, ranks=ranks, counts=np.zeros_like(ranks)),
        Column(field="853", lengths=own, ranks=ranks[known], counts=counts),
    ]


class Labels:
    """Draws clicks and purchases at the published rates.

    Attributes:
        signal: whether they depend on the features.
    """

    def __init__(self, entities: Entities, *, signal: bool, seed: int) -> None:
        self.signal = signal
        self._entities = entities
        self._seed = seed
        self._lifts: dict[str, float] = {}

    def draw(
        self, owners: Ints, columns: list[Column], first: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Clicks and purchases of rows; `first` is the number of the first of them."""
        rng = np.random.default_rng([self._seed, 4, first])
        given = {column.field: column for column in columns}
        buys = (PURCHASES - ANOMALIES) / CTR
        click = rng.random(len(owners)) < self._odds("click", self._taste(owners, given), CTR)
        buy = rng.random(len(owners)) < self._odds("buy", self._need(owners, given), buys)
        anomaly = rng.random(len(owners)) < ANOMALIES / (1 - CTR)
        return click, np.where(click, buy, anomaly)

    def _odds(self, name: str, score: Floats, rate: float) -> Floats:
        """Probabilities with that mean, found on the first block and kept."""
        if not self.signal:
            return np.full(len(score), rate)
        if name not in self._lifts:
            self._lifts[name] = lift(score, rate)
        return sigmoid(score + self._lifts[name])

    def _taste(self, owners: Ints, given: dict[str, Column]) -> Floats:
        category, position = given["206"].ranks, given["301"].ranks
        profile = self._entities.profile[owners]
        score = 2.5 * unit(category, 11) + 1.5 * unit(profile[:, 2] + 1, 12)
        score += 1.5 * unit(profile[:, 3] + 1, 13) - 0.4 * position
        return score + 0.9 * spread_out(given["508"])

    def _need(self, owners: Ints, given: dict[str, Column]) -> Floats:
        age = self._entities.profile[owners, 3]
        score = 3.0 * unit(given["206"].ranks, 21) + 2.0 * unit(age + 1, 22)
        return score + 1.2 * spread_out(given["509"])


def spread_out(column: Column) -> Floats:
    """A field of at most one token a row as its value, 0.0 where there is none."""
    values = np.zeros(len(column.lengths))
    values[column.lengths == 1] = np.log1p(column.counts)
    return values


def sigmoid(score: Floats) -> Floats:
    odds: Floats = 1.0 / (1.0 + np.exp(-score))
    return odds


def lift(score: Floats, rate: float) -> float:
    """What to add to scores for probabilities of that mean."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if sigmoid(score + middle).mean() > rate else (middle, high)
    return low


class Texts:
    """Turns columns into `feature_list`s."""

    def __init__(self) -> None:
        values = ["1.0"] + [f"{math.log1p(n):.5f}".rstrip("0") for n in range(1, MOST + 1)]
        self._ends = pa.array([f"\x03{value}" for value in values])
        self._starts = pa.array([f"{field}\x02" for field in FIELDS])
        sizes = np.array(list(SIZES.values()))
        self._first = np.cumsum(sizes) - sizes + 1  # ids of all fields in one range, as published
        # An odd step that has no divisor in common with the size scatters the frequent tokens.
        self._steps = np.array([coprime(int(size * 0.618)) for size in sizes])
        self._sizes = sizes

    def lists(self, columns: list[Column]) -> tuple[Ints, pa.StringArray]:
        """The number of tokens and the `feature_list` of every row."""
        lengths = np.stack([column.lengths for column in columns], axis=1)
        ends = np.cumsum(lengths.ravel()).reshape(lengths.shape)
        total = int(ends[-1, -1])
        fields, ranks = np.empty(total, np.int64), np.empty(total, np.int64)
        counts = np.empty(total, np.int64)
        for place, column in enumerate(columns):
            # Where the tokens of this field go: after those of the fields before it in their row.
            shift = ends[:, place] - np.cumsum(column.lengths)
            where = np.arange(len(column.ranks)) + np.repeat(shift, column.lengths)
            fields[where] = FIELDS[column.field]
            ranks[where], counts[where] = column.ranks, column.counts
        offsets = np.concatenate([[0], ends[:, -1]])
        tokens = self._tokens(fields, ranks, counts)
        listed = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), tokens)
        return np.diff(offsets), pc.binary_join(listed, "\x01")

    def _tokens(self, fields: Ints, ranks: Ints, counts: Ints) -> pa.StringArray:
        scattered = ranks * self._steps[fields] % self._sizes[fields] + self._first[fields]
        ids = pa.array(scattered).cast(pa.string())
        starts, ends = self._starts.take(pa.array(fields)), self._ends.take(pa.array(counts))
        return pc.binary_join_element_wise(starts, ids, ends, "")


def coprime(start: int) -> int:
    """A number at or above `start` that is prime to every size."""
    number = max(start, 1) | 1
    while any(math.gcd(number, size) != 1 for size in SIZES.values()):
        number += 2
    return number


def names(numbers: Ints, seed: int) -> pa.StringArray:
    """The 16 hexadecimal digits of entities."""
    folded = mixed(numbers, seed).astype(">u8").view(np.uint8).reshape(-1, 8)
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    both = np.stack([digits[folded >> 4], digits[folded & 15]], axis=2).reshape(-1, 16)
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 16
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(both))]
    return pa.StringArray.from_buffers(len(numbers), buffers[1], buffers[2])


def lines(cells: list[pa.Array]) -> pa.Buffer:
    """Rows as the text of a file."""
    parts = [pc.cast(cell, pa.large_string()) for cell in cells]
    rows = pc.binary_join_element_wise(*parts, pa.scalar(",", pa.large_string()))
    end, nothing = (pa.scalar(text, pa.large_string()) for text in ("\n", ""))
    return pc.binary_join_element_wise(rows, end, nothing).buffers()[2]


def common_lines(entities: Entities, texts: Texts, seed: int) -> Iterator[pa.Buffer]:
    """The text of the common file in blocks."""
    count = len(entities.rows)
    for start in range(0, count, COMMON_BLOCK):
        numbers = np.arange(start, min(start + COMMON_BLOCK, count))
        lengths, lists = texts.lists(common_columns(entities, numbers, seed))
        yield lines([names(numbers, seed), pa.array(lengths), lists])


def skeleton_lines(
    entities: Entities, texts: Texts, seed: int, *, signal: bool
) -> Iterator[pa.Buffer]:
    """The text of the skeleton in blocks."""
    labels = Labels(entities, signal=signal, seed=seed)
    owners, sizes = sessions(entities, seed)
    step, first = SKELETON_BLOCK // SESSION, 0
    for start in range(0, len(owners), step):
        block = slice(start, start + step)
        rows = np.repeat(owners[block].astype(np.int64), sizes[block])
        columns = skeleton_columns(rows, first, seed)
        click, buy = labels.draw(rows, columns, first)
        lengths, lists = texts.lists(columns)
        samples = pa.array(np.arange(first + 1, first + len(rows) + 1))
        bits = [pa.array(one.astype(np.int8)) for one in (click, buy)]
        yield lines([samples, *bits, names(rows, seed), pa.array(lengths), lists])
        first += len(rows)


def generate(out: Path, *, scale: float, seed: int, signal: bool) -> tuple[int, int]:
    """Write both files into a folder; the numbers of rows and of entities.

    Args:
        out: the folder, made if there is none; files in it of these names are overwritten.
        scale: share of the full train set, over 0, at most 1.
        seed: of everything that is drawn.
        signal: whether labels depend on features.
    """
    rows, count = max(1, round(ROWS * scale)), max(1, round(ENTITIES * scale))
    out.mkdir(parents=True, exist_ok=True)
    entities, texts = make_entities(count, rows, seed), Texts()
    with (out / "common_features_train.csv").open("wb") as file:
        for block in common_lines(entities, texts, seed):
            file.write(block)
    with (out / "sample_skeleton_train.csv").open("wb") as file:
        for block in skeleton_lines(entities, texts, seed, signal=signal):
            file.write(block)
    return rows, count


def main() -> None:
    """Parse, generate, say what was written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--scale", type=float, default=0.01, help="share of the full set")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--signal", action="store_true", help="labels that can be learnt")
    given = parser.parse_args()
    if not 0 < given.scale <= 1:
        sys.exit(f"--scale {given.scale}: give a number over 0, at most 1")
    rows, count = generate(given.out, scale=given.scale, seed=given.seed, signal=given.signal)
    sizes = " ".join(f"{path.name} {path.stat().st_size:,}" for path in sorted(given.out.iterdir()))
    print(f"{rows:,} rows of {count:,} entities; bytes: {sizes}")


if __name__ == "__main__":
    main()
