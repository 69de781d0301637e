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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ingot.converters.ctr import build_dataloader
from ingot.converters.ctr.contract import PAD
from ingot.converters.ctr.featuremap import Feature, load

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


def auc(scores: Tensor, labels: Tensor) -> float:
    """The share of pairs of a 1 and a 0 in which the 1 has the higher score, ties as half.

    Exact, from ranks: sorting, no list of pairs. NaN where all labels are the same.
    """
    _, group, sizes = torch.unique(scores, return_inverse=True, return_counts=True)
    # Equal scores share the mean of their ranks, which count from 1.
    ranks = sizes.cumsum(0).double() - (sizes.double() - 1) / 2
    ones = labels > 0.5
    good, bad = int(ones.sum()), int((~ones).sum())
    if not good or not bad:
        return float("nan")
    return (float(ranks[group][ones].sum()) - good * (good + 1) / 2) / (good * bad)


@torch.no_grad()
def evaluate(model: Esmm, data: Path, batch_size: int) -> tuple[int, float, float]:
    """The rows of `valid`, and the AUC of pCTR and of pCTCVR on them."""
    model.eval()
    found: list[tuple[Tensor, ...]] = []
    for batch in build_dataloader(data, split="valid", batch_size=batch_size):
        labels = batch["labels"]
        found.append((*model(batch), labels["y_ctr"], labels["y_ctcvr"]))
    click, both, clicked, bought = (torch.cat(parts) for parts in zip(*found, strict=True))
    return len(clicked), auc(click, clicked), auc(both, bought)


@dataclass(kw_only=True)
class Progress:
    """Where a run stands.

    Attributes:
        epoch: the one under way, from 0.
        steps: done in this epoch.
        loss: the sum of their losses.
        losses: the mean loss of every epoch that is finished.
    """

    epoch: int = 0
    steps: int = 0
    loss: float = 0.0
    losses: list[float] = field(default_factory=list)


class Training:
    """A run over some epochs that can be put down and taken up."""

    def __init__(self, args: argparse.Namespace) -> None:
        featuremap = load(args.data / "featuremap.yaml")
        torch.manual_seed(args.seed)
        self.args = args
        self.model = Esmm(featuremap.features, featuremap.tail_ids)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.loader = build_dataloader(
            args.data,
            split="train",
            batch_size=args.batch_size,
            shuffle=True,
            seed=args.seed,
            num_workers=args.workers,
        )
        self.progress = Progress()

    def run(self) -> bool:
        """All epochs; False where `--stop` ended them before."""
        total = 0
        while self.progress.epoch < self.args.epochs:
            self.model.train()
            for batch in self.loader:  # after `resume` from the batch on that was next
                self.step(batch)
                total += 1
                if total == self.args.stop:
                    return False
            self.finish_epoch()
            self.loader.set_epoch(self.progress.epoch)  # another order
        return True

    def step(self, batch: Batch) -> None:
        """One step of the optimizer, kept if it is time to."""
        loss = loss_of(self.model, batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.progress.steps += 1
        self.progress.loss += loss.item()
        if self.args.checkpoint and self.progress.steps % self.args.every == 0:
            self.save(self.args.checkpoint)

    def finish_epoch(self) -> None:
        """Tell the loss and what `valid` says."""
        done = self.progress
        loss = done.loss / max(done.steps, 1)
        rows, ctr, ctcvr = evaluate(self.model, self.args.data, self.args.batch_size)
        print(
            f"epoch {done.epoch + 1}  loss {loss:.4f}  "
            f"AUC ctr {ctr:.4f}  ctcvr {ctcvr:.4f}  ({rows:,} rows of valid)"
        )
        self.progress = Progress(epoch=done.epoch + 1, losses=[*done.losses, loss])

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
            "progress": asdict(self.progress),
        }
        draft = path.with_name(f"{path.name}.tmp")
        torch.save(state, draft)
        draft.replace(path)

    def resume(self, path: Path) -> None:
        """Go on where a checkpoint was written."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])
        self.progress = Progress(**state["progress"])


def options(argv: list[str] | None) -> argparse.Namespace:
    """The command line, by default the process's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, metavar="DIR", help="what ingot ctr build wrote")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="processes that read")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="write it")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from it")
    parser.add_argument("--stop", type=int, metavar="N", help="end after N steps")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Train, print; the process's exit status."""
    args = options(argv)
    training = Training(args)
    if args.resume:
        training.resume(args.resume)
    if not training.run():
        print(f"stopped in epoch {training.progress.epoch + 1}")
        return 0
    losses = training.progress.losses
    return int(len(losses) > 1 and losses[-1] >= losses[0])


if __name__ == "__main__":
    torch.set_num_threads(1)  # layers this small lose by more
    sys.exit(main())
