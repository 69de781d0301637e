"""What the training examples share: epochs, checkpoints in their midst, the AUC. Not run itself."""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


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
    """A run over some epochs that can be put down and taken up.

    Args:
        model: it learns with Adam.
        loader: a loader of ingot's: batches, `set_epoch` and a state.
        loss: of a batch, a scalar.
        evaluate: after each epoch; what to tell of it.
        args: what `add_options` takes.
    """

    def __init__(
        self,
        model: nn.Module,
        loader: Any,  # noqa: ANN401 - of one or the other contract
        loss: Callable[[Any], Tensor],
        evaluate: Callable[[], str],
        args: argparse.Namespace,
    ) -> None:
        self.model, self.loader, self.args = model, loader, args
        self.loss, self.evaluate = loss, evaluate
        self.optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
        self.progress = Progress()

    def main(self) -> int:
        """All of it; the process's exit status, 1 if the loss does not fall."""
        if self.args.resume:
            self.resume(self.args.resume)
        if not self.run():
            print(f"stopped in epoch {self.progress.epoch + 1}")
            return 0
        losses = self.progress.losses
        return int(len(losses) > 1 and not losses[-1] < losses[0])  # NaN has not fallen

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

    def step(self, batch: Any) -> None:  # noqa: ANN401
        """One step of the optimizer, kept if it is time to."""
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.progress.steps += 1
        self.progress.loss += loss.item()
        if self.args.checkpoint and self.progress.steps % self.args.every == 0:
            self.save(self.args.checkpoint)

    def finish_epoch(self) -> None:
        """Tell the loss and what the rows say that are not trained on."""
        done = self.progress
        loss = done.loss / max(done.steps, 1)
        self.model.eval()
        with torch.no_grad():
            told = self.evaluate()
        print(f"epoch {done.epoch + 1}  loss {loss:.4f}  {told}")
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that every example has."""
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="processes that read")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="write it")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from it")
    parser.add_argument("--stop", type=int, metavar="N", help="end after N steps")
