"""Fits how sure the rules are to how often they are right, and shows how well that holds.

    python benchmarks/mapping/calibrate.py CASES... [--write] [--picture FILE] [--record SET]

CASES are folders of cases as `run.py` takes them. Every case is proposed by the rules alone, the
mapping is run on all rows, and the records are compared with the accepted answers: once in the
mode that the case asks for, once in `auto`. What speaks against a proposal (`find_doubts`) is
weighed by a logistic regression whose weights cannot be negative: a doubt never makes a proposal
surer. The table and the curve are made by cross-validation, each case judged by weights that were
fitted without it. `--write` writes the weights of all cases to
`agent/proposing/doubts/confidence.json`.

Rules that were improved on a set are better on it than on any other. `first_look.jsonl` therefore
holds what they proposed for sets that nobody had looked at, with the doubts of that day; it is
fitted and shown with the rest. `--record SET` adds the cases as such a set and fits nothing.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from score import score

import ingot.agent.proposing.doubts as doubts_package
from ingot.agent.proposing.proposal import Request
from ingot.agent.proposing.rules.mapper import propose_with_doubts
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import sample_batches
from ingot.converters.mapping.rows.executor import RowExecutor
from ingot.converters.sources import open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.sample import draw_sample

FIRST_LOOK = Path(__file__).with_name("first_look.jsonl")
WEIGHTS = Path(doubts_package.__file__).with_name("confidence.json")
BANDS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
FOLDS = 10
PRIOR = 1.0  # what a doubt costs in log-odds before any case was seen
PULL = 1.0  # how many doubtful cases that is worth
KEEP = 12.0  # and of a weight that was fitted before, to cases that are not all here any more
OLD = 0.5  # what a proposal of an earlier day counts: the rules have changed since
ROWS = 100_000  # more than any case has


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What the rules proposed for a case: `right` is None where they proposed nothing."""

    case: str
    kind: str
    right: bool | None
    doubts: dict[str, float]
    said: str


def judge(folder: Path, mode: str = "") -> Judged:
    """Propose, run and score one case, in the mode that it asks for or in another."""
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    source = open_source(str(folder / "raw"))
    request = Request(mode=mode or case["requested_mode"])
    proposal, doubts = propose_with_doubts(source, draw_sample(source), request)
    if proposal.mapping is None:
        return Judged(case=folder.name, kind="", right=None, doubts={}, said="")
    spec = SourceSpec.from_document(proposal.mapping.get("source"))
    whole = draw_sample(source.with_spec(spec), rows=ROWS)
    mapping = bind(proposal.mapping, [row.value for row in whole.rows], where="rules")
    executor = RowExecutor(mapping, source_name=source.name, language=None)
    records = [r for batch in sample_batches(whole, mapping) for r in executor.batch(batch).records]
    return Judged(
        case=folder.name,
        kind=proposal.decision,
        right=score(folder, records).verdict == "pass",
        doubts=doubts,
        said=json.dumps(proposal.mapping, ensure_ascii=False),
    )


def sure(matrix: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The confidence of every row of a matrix whose first columns are the base of each kind."""
    return 1 / (1 + np.exp(-(matrix @ weights)))


@dataclass(frozen=True, kw_only=True)
class Prior:
    """Where the fit starts from: the weights of before, each with how hard it is to move."""

    weights: np.ndarray
    pull: np.ndarray

    @classmethod
    def of(cls, names: Sequence[str]) -> "Prior":
        """The weights in use, and a small one for every doubt that has none yet."""
        known = json.loads(WEIGHTS.read_text(encoding="utf-8"))
        told = [known["base"]["pt"], known["base"]["sft"]]
        told += [-known["weights"].get(name, PRIOR) for name in names]
        pull = [0.2, 0.2, *(KEEP if name in known["weights"] else PULL for name in names)]
        return cls(weights=np.array(told), pull=np.array(pull))


def fit(matrix: np.ndarray, right: np.ndarray, counts: np.ndarray, prior: Prior) -> np.ndarray:
    """Weights by projected Newton-like steps; no doubt makes surer.

    `counts` says how much each row counts.
    """
    weights, pull, free = prior.weights.copy(), prior.pull, 2
    bound = 0.25 * np.linalg.eigvalsh(matrix.T @ (counts[:, None] * matrix))[-1] + pull.max()
    for _ in range(20_000):
        wrong_by = counts * (sure(matrix, weights) - right)
        slope = matrix.T @ wrong_by + pull * (weights - prior.weights)
        step = weights - slope / bound
        step[free:] = np.minimum(step[free:], 0.0)
        if np.abs(step - weights).max() < 1e-7:
            break
        weights = step
    return weights


def as_matrix(judged: Sequence[Judged], names: Sequence[str]) -> np.ndarray:
    """One row a proposal: a base for each kind, then the doubts."""
    rows = [
        [float(one.kind == "pt"), float(one.kind == "sft"), *(one.doubts.get(n, 0) for n in names)]
        for one in judged
    ]
    return np.array(rows, dtype=float)


def cross_validate(
    matrix: np.ndarray,
    right: np.ndarray,
    counts: np.ndarray,
    cases: Sequence[str],
    prior: Prior,
) -> np.ndarray:
    """The confidence of every proposal by weights that were fitted without its case."""
    names = sorted(set(cases))
    parts = dict(zip(names, np.random.default_rng(0).permutation(len(names)) % FOLDS, strict=True))
    folds = np.array([parts[case] for case in cases])
    told = np.zeros(len(right))
    for fold in range(FOLDS):
        rest = folds != fold
        told[~rest] = sure(matrix[~rest], fit(matrix[rest], right[rest], counts[rest], prior))
    return told


def reliability(told: np.ndarray, right: np.ndarray) -> Table:
    """How often proposals of a confidence are right."""
    table = Table(title="reliability (cross-validated)")
    for heading in ("from", "below", "cases", "mean told %", "right %"):
        table.add_column(heading, justify="right")
    for low, high in pairwise(BANDS):
        held = (told >= low) & (told < high)
        if held.any():
            mean, share = 100 * told[held].mean(), 100 * right[held].mean()
            cells = f"{low:g}", f"{min(high, 1):g}", str(held.sum()), f"{mean:.0f}", f"{share:.0f}"
            table.add_row(*cells)
    return table


def risk_coverage(told: np.ndarray, right: np.ndarray) -> Table:
    """What a least confidence lets through: how many, and how many of those are wrong."""
    table = Table(title="risk and coverage (cross-validated)")
    for heading in ("least", "converted", "wrong among them", "right that wait"):
        table.add_column(heading, justify="right")
    for least in (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        taken = told >= least
        wrong, wait = int((taken & (right == 0)).sum()), int((~taken & (right == 1)).sum())
        table.add_row(f"{least:g}", str(taken.sum()), str(wrong), str(wait))
    return table


def record_first_look(judged: Sequence[Judged], name: str) -> None:
    """Add proposals for a set that nobody had looked at."""
    lines = [
        json.dumps({"set": name, **asdict(one), "said": ""}, ensure_ascii=False) for one in judged
    ]
    with FIRST_LOOK.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def read_first_look() -> list[Judged]:
    """What was proposed for sets when they were new."""
    lines = FIRST_LOOK.read_text(encoding="utf-8").splitlines() if FIRST_LOOK.exists() else []
    found = [json.loads(line) for line in lines]
    return [Judged(**{k: v for k, v in one.items() if k != "set"}) for one in found]


def write_weights(names: Sequence[str], weights: np.ndarray) -> None:
    """Write the weights as the rules read them."""
    document: dict[str, Any] = {
        "about": "written by benchmarks/mapping/calibrate.py; log-odds of being right",
        "unseen": PRIOR,
        "base": {"pt": round(float(weights[0]), 3), "sft": round(float(weights[1]), 3)},
        "weights": {
            name: round(-float(w), 3) + 0.0 for name, w in zip(names, weights[2:], strict=True)
        },
    }
    WEIGHTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def draw(told: np.ndarray, right: np.ndarray, path: Path) -> None:
    """Draw risk against coverage as an SVG."""
    order = np.argsort(-told, kind="stable")
    wrong = np.cumsum(1 - right[order]) / np.arange(1, len(right) + 1)
    points = [
        (60 + 520 * (n + 1) / len(right), 260 - 220 * w / max(0.01, wrong.max()))
        for n, w in enumerate(wrong)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    labels = "".join(
        f'<text x="{60 + 520 * share:.0f}" y="280" text-anchor="middle">{share:.0%}</text>'
        f'<text x="52" y="{264 - 220 * share:.0f}" text-anchor="end">'
        f"{wrong.max() * share:.0%}</text>"
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 620 310" font-family="sans-serif" '
        'font-size="12"><rect width="620" height="310" fill="white"/>'
        '<path d="M60 40V260H580" fill="none" stroke="#888"/>'
        f'<polyline points="{line}" fill="none" stroke="#1668b8" stroke-width="2"/>{labels}'
        '<text x="320" y="302" text-anchor="middle">proposals converted, surest first</text>'
        '<text x="60" y="24">share of wrong ones among them</text></svg>\n',
        encoding="utf-8",
    )


def main() -> int:
    """Judge all cases, fit, print; 1 if no case could be judged."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="write the weights")
    parser.add_argument("--picture", type=Path, help="draw risk against coverage as an SVG file")
    parser.add_argument("--record", metavar="SET", help="add the cases as a set seen first now")
    parser.add_argument("--list", action="store_true", help="one line a case")
    args = parser.parse_args()
    folders = sorted(one.parent for cases in args.cases for one in cases.glob("*/case.json"))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        told = list(pool.map(judge, folders))
        everything = [*told, *pool.map(partial(judge, mode="auto"), folders)]
    judged = [one for one in everything if one.right is not None]
    if args.record:
        record_first_look(judged, args.record)
        return int(not judged)
    counts = np.array([1.0] * len(judged) + [OLD] * len(earlier := read_first_look()))
    judged += earlier
    names = sorted({name for one in judged for name in one.doubts})
    matrix, right = as_matrix(judged, names), np.array([float(bool(one.right)) for one in judged])
    prior = Prior.of(names)
    told, weights = (
        cross_validate(matrix, right, counts, [one.case for one in judged], prior),
        fit(matrix, right, counts, prior),
    )
    console = Console(highlight=False)
    if args.list:
        for one, p in sorted(zip(judged, told, strict=True), key=lambda pair: -pair[1]):
            why = ", ".join(f"{n} {v:.2f}" for n, v in sorted(one.doubts.items()) if v >= 0.05)
            mark = "right" if one.right else "WRONG"
            console.print(f"{p:.2f} {mark} {one.case}: {why}", markup=False, soft_wrap=True)
    console.print(reliability(told, right), risk_coverage(told, right))
    for name, weight in zip(("pt", "sft", *names), weights, strict=True):
        console.print(f"  {name:20} {weight:6.2f}")
    if args.write:
        write_weights(names, weights)
    if args.picture:
        draw(told, right, args.picture)
    return int(not judged)


if __name__ == "__main__":
    sys.exit(main())
