"""From raw chats to a training step, offline: `ingot run`, then a few steps of a tiny torch model.

    python examples/train_on_tokens.py [--out demo/training] [--steps 24]

Runs `ingot run` on `en_chats` with the tokenizer of the examples, opens the tokens and their loss
masks as a torch `Dataset`, and trains a model of one layer on the answers alone. Exits with 1 if
the loss does not fall. Needs torch: `pip install 'ingot[torch]'`.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ingot.converters.megatron.dataset import Item, TokenDataset, collate

ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = ROOT / "examples" / "tokenizer" / "tokenizer.json"
VOCABULARY = 3_000
LENGTH = 128
WIDTH = 32
FALLS_BY = 0.8  # the last loss is below this share of the first


class TinyModel(nn.Module):
    """One layer of causal attention within each text; logits of shape (batch, length, words)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, num_heads=1, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, batch: Item) -> Tensor:
        """Logits for the label of every place."""
        hidden = self.words(batch["tokens"]) + self.places(batch["position_ids"])
        segments = batch["segment_ids"]
        later = torch.ones(segments.shape[1], segments.shape[1], dtype=torch.bool).triu(1)
        hidden_from = later | (segments[:, :, None] != segments[:, None, :])
        seen, _ = self.attention(hidden, hidden, hidden, attn_mask=hidden_from, need_weights=False)
        logits: Tensor = self.out(hidden + seen)
        return logits


def build(out: Path) -> Path:
    """Make the data set; its prefix."""
    argv = [sys.executable, "-m", "ingot", "run", "examples/en_chats", "--out", str(out)]
    argv += ["--mapper", "rules", "--tokenizer", str(TOKENIZER), "--yes", "--overwrite"]
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return out / "tokens" / "en_chats"


def train(data: TokenDataset, steps: int) -> list[float]:
    """The loss of every step, over the tokens that are trained on."""
    torch.manual_seed(0)
    model = TinyModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)
    losses: list[float] = []
    while len(losses) < steps:
        for batch in loader:
            logits = model(batch)
            # Labels that do not count are -100, which cross_entropy leaves out.
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses[:steps]


def main() -> int:
    """Build, train, print; the process's exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=ROOT / "demo" / "training")
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    data = TokenDataset(build(args.out.resolve()), seq_length=LENGTH, truncate=True)
    trained = sum(int(item["loss_mask"].sum()) for item in data)
    real = sum(int((item["segment_ids"] >= 0).sum()) for item in data)
    print(f"{len(data)} chats, {real:,} tokens, {trained:,} of them trained on")
    losses = train(data, args.steps)
    for step in range(0, len(losses), max(1, len(losses) // 6)):
        print(f"step {step + 1:>3}  loss {losses[step]:.3f}")
    print(f"last      loss {losses[-1]:.3f}")
    return int(losses[-1] > FALLS_BY * losses[0])


if __name__ == "__main__":
    sys.exit(main())
