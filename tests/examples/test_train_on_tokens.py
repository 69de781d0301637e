"""The example that trains on tokens: from raw chats to a loss that falls."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_on_tokens.py"


@pytest.mark.long
def test_the_loss_falls(tmp_path):
    argv = [sys.executable, EXAMPLE, "--out", tmp_path / "out", "--steps", "12"]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("24 chats, 2,567 tokens, 1,446 of them trained on\n")
    assert (tmp_path / "out" / "tokens" / "en_chats.loss_mask.idx").exists()
