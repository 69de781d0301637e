"""A small DLRM on preprocessed Criteo days: clicks from thirteen counts and 26 columns of ids.

    ingot criteo preprocess --input-dir examples/criteo --out demo/criteo
    python examples/train_dlrm.py demo/criteo [--epochs 3] [--multi-hot 4]
        [--checkpoint FILE] [--resume FILE]

The counts go through a bottom tower, the ids of every column through an embedding bag, which reads
a column's values and offsets of the KeyedJaggedTensor as they are; the dot products of all these
vectors, two by two, and the first of them go through a top tower (Naumov et al., 2019). It learns
on all days but the last, and prints the mean loss of every epoch and the AUC on the last day, which
`preprocess` has not shuffled; exits with 1 if the loss does not fall.

`--multi-hot N` makes N ids of each one in the columns that have at least `--multi-hot-from` values,
as the multi-hot form of the benchmark does: the same bags, longer. `--checkpoint FILE` saves model,
optimizer and the loader's place every `--every` steps, `--stop N` ends after N steps as a lost
machine would, and `--resume FILE` goes on with the next batch: the figures are those of a run that
was never stopped. Needs torch: `pip install 'ingot[torch]'`.
"""

import argparse
import json
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Training, add_options, auc

from ingot.converters.recsys.criteo import CriteoDataset, KeyedJaggedTensor, MultiHot
from ingot.converters.recsys.criteo.contract import KEYS, STATS
from ingot.converters.sources.recognizers.criteo import DENSE

WIDTH = 8
HIDDEN = 32


def tower(*widths: int) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Dlrm(nn.Module):
    """The logit of a click, float32 (batch,).

    Args:
        num_embeddings: rows of the table of each column.
    """

    def __init__(self, num_embeddings: list[int]) -> None:
        super().__init__()
        self.bags = nn.ModuleDict(
            {
                key: nn.EmbeddingBag(rows, WIDTH, mode="sum", include_last_offset=True)
                for key, rows in zip(KEYS, num_embeddings, strict=True)
            }
        )
        for bag in self.bags.values():
            nn.init.normal_(bag.weight, std=0.01)
        vectors = 1 + len(KEYS)
        self.bottom = tower(DENSE, HIDDEN, WIDTH)
        self.top = tower(WIDTH + vectors * (vectors - 1) // 2, HIDDEN, 1)
        self.register_buffer("pairs", torch.tril_indices(vectors, vectors, -1), persistent=False)

    def forward(self, dense: Tensor, sparse: KeyedJaggedTensor) -> Tensor:
        """From float32 (batch, 13) and the ids of `batch` rows."""
        first = self.bottom(dense)
        vectors = torch.stack([first, *(self.pooled(key, sparse) for key in KEYS)], dim=1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2))
        both = torch.cat([first, dots[:, self.pairs[0], self.pairs[1]]], dim=1)
        logit: Tensor = self.top(both).squeeze(1)
        return logit

    def pooled(self, key: str, sparse: KeyedJaggedTensor) -> Tensor:
        """The sum of a column's embeddings in each row, float32 (batch, WIDTH)."""
        column = sparse[key]
        rows: Tensor = self.bags[key](column.values().long(), column.offsets().long())
        return rows


def loss_of(model: Dlrm, batch: tuple[Tensor, KeyedJaggedTensor, Tensor]) -> Tensor:
    """The mean loss of a batch, a scalar."""
    dense, sparse, labels = batch
    return functional.binary_cross_entropy_with_logits(model(dense, sparse), labels.float())


def evaluate(model: Dlrm, last: CriteoDataset) -> str:
    """The AUC on the last day, and its rows."""
    found = [(model(dense, sparse), labels) for dense, sparse, labels in last]
    scores, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    return f"AUC {auc(scores, labels):.4f}  ({len(labels):,} rows of {last.parts[-1]})"


def sizes(data: Path, most: int) -> list[int]:
    """How many rows the table of each column needs, at most so many.

    The loader takes ids modulo these.
    """
    columns = json.loads((data / STATS).read_bytes())["sparse"]
    return [min(column["max_id"] + 1, most) for column in columns]


def training(args: argparse.Namespace) -> Training:
    """A model, its loader, and what to learn from it."""
    torch.manual_seed(args.seed)
    tables = sizes(args.data, args.table_rows)
    multi_hot = MultiHot(tables, args.multi_hot, args.multi_hot_from) if args.multi_hot else None
    days = partial(CriteoDataset, args.data, args.batch_size, num_embeddings=tables)
    days = partial(days, multi_hot=multi_hot)
    model = Dlrm(tables)
    loader = days(split="train", shuffle_batches=True, seed=args.seed, num_workers=args.workers)
    parts = [one["name"] for one in json.loads((args.data / STATS).read_bytes())["parts"]]
    last = days(split="all", parts=parts[-1:])
    return Training(model, loader, partial(loss_of, model), partial(evaluate, model, last), args)


def options(argv: list[str] | None) -> argparse.Namespace:
    """The command line, by default the process's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, metavar="DIR", help="what preprocess wrote")
    parser.add_argument("--multi-hot", type=int, metavar="N", help="ids that one becomes")
    parser.add_argument("--multi-hot-from", type=int, default=20, metavar="N", help="table rows")
    parser.add_argument("--table-rows", type=int, default=200_000, metavar="N", help="at most")
    add_options(parser)
    parser.set_defaults(epochs=3, lr=0.003)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Train, print; the process's exit status."""
    return training(options(argv)).main()


if __name__ == "__main__":
    torch.set_num_threads(1)  # layers this small lose by more
    sys.exit(main())
