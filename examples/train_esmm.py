r"""A small ESMM on a built CTR data set: clicks and purchases of all impressions, together.

    ingot ctr build --skeleton examples/ctr/sample_skeleton_train.csv \
        --common examples/ctr/common_features_train.csv \
        --featuremap examples/ctr/featuremap.yaml --out demo/ctr
    python examples/train_esmm.py demo/ctr [--epochs 2] [--checkpoint FILE] [--resume FILE]

Two towers over shared embeddings give pCTR and pCVR; the losses are those of pCTR on `y_ctr` and of
pCTCVR = pCTR x pCVR on `y_ctcvr`, so that the second tower learns from every impression and not
from clicks alone (Ma et al., 2018). Prints the mean loss of every epoch and the AUC of both on
`valid`; exits with 1 if the loss does not fall.

`--checkpoint FILE` saves model, optimizer and the loader's place every `--every` steps, `--stop N`
ends after N steps as a lost machine would, and `--resume FILE` goes on with the next batch: the
figures are those of a run that was never stopped. Needs torch: `pip install 'ingot[torch]'`.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Training, add_options, auc

from ingot.converters.recsys.ctr import build_dataloader
from ingot.converters.recsys.ctr.contract import PAD
from ingot.converters.recsys.ctr.featuremap import Feature, load

WIDTH = 8
HIDDEN = 32
MOST_ROWS = 200_000  # of a table; more ids than that share rows
Batch = dict[str, Any]


class Pooled(nn.Module):
    """The embedding of one feature: float32 (batch, WIDTH).

    A list is the mean of its tokens' embeddings, weighted by their values where the feature has
    values; padding has no weight. A single id is multiplied by its value.
    """

    def __init__(self, feature: Feature, tail_ids: str) -> None:
        super().__init__()
        self.rows = min(feature.num_embeddings(tail_ids), MOST_ROWS)
        self.table = nn.Embedding(self.rows, WIDTH, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=0.1)

    def forward(self, one: Batch) -> Tensor:
        """From the feature's part of a batch."""
        idx, val = one["idx"], one["val"]
        # A stand-in for tables of millions of rows: ids past the end share the rows from 3 on, so
        # that padding, missing and out of vocabulary keep theirs.
        idx = torch.where(idx < self.rows, idx, 3 + idx % max(self.rows - 3, 1))
        weights = (idx != PAD).float() if val is None else val
        rows: Tensor = self.table(idx) * weights.unsqueeze(-1)
        if one["type"] == "single":
            return rows
        return rows.sum(1) / weights.abs().sum(1, keepdim=True).clamp(min=1e-6)


def tower(width: int) -> nn.Sequential:
    """From the features of a row to one logit."""
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


class Esmm(nn.Module):
    """pCTR and pCTCVR, both float32 (batch,)."""

    def __init__(self, features: tuple[Feature, ...], tail_ids: str) -> None:
        super().__init__()
        self.pooled = nn.ModuleDict({one.name: Pooled(one, tail_ids) for one in features})
        self.click, self.buy = (tower(WIDTH * len(features)) for _ in range(2))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """From a batch of the loader."""
        parts = [pooled(batch["features"][name]) for name, pooled in self.pooled.items()]
        shared = torch.cat(parts, dim=1)
        click, buy = (head(shared).squeeze(1).sigmoid() for head in (self.click, self.buy))
        return click, click * buy


def loss_of(model: Esmm, batch: Batch) -> Tensor:
    """The mean loss of a batch, a scalar."""
    click, both = model(batch)
    labels = batch["labels"]
    of_clicks = functional.binary_cross_entropy(click, labels["y_ctr"])
    return of_clicks + functional.binary_cross_entropy(both, labels["y_ctcvr"])


def evaluate(model: Esmm, data: Path, batch_size: int) -> str:
    """The AUC of pCTR and of pCTCVR on `valid`, and its rows."""
    found: list[tuple[Tensor, ...]] = []
    for batch in build_dataloader(data, split="valid", batch_size=batch_size):
        labels = batch["labels"]
        found.append((*model(batch), labels["y_ctr"], labels["y_ctcvr"]))
    click, both, clicked, bought = (torch.cat(parts) for parts in zip(*found, strict=True))
    ctr, ctcvr = auc(click, clicked), auc(both, bought)
    return f"AUC ctr {ctr:.4f}  ctcvr {ctcvr:.4f}  ({len(clicked):,} rows of valid)"


def training(args: argparse.Namespace) -> Training:
    """A model, its loader, and what to learn from it."""
    featuremap = load(args.data / "featuremap.yaml")
    torch.manual_seed(args.seed)
    model = Esmm(featuremap.features, featuremap.tail_ids)
    loader = build_dataloader(
        args.data,
        split="train",
        batch_size=args.batch_size,
        shuffle=True,
        seed=args.seed,
        num_workers=args.workers,
    )
    tell = partial(evaluate, model, args.data, args.batch_size)
    return Training(model, loader, partial(loss_of, model), tell, args)


def options(argv: list[str] | None) -> argparse.Namespace:
    """The command line, by default the process's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, metavar="DIR", help="what ingot ctr build wrote")
    add_options(parser)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Train, print; the process's exit status."""
    return training(options(argv)).main()


if __name__ == "__main__":
    torch.set_num_threads(1)  # layers this small lose by more
    sys.exit(main())
