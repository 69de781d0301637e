"""Tokenizers from the Hugging Face Hub."""

from pathlib import Path


def fetch_tokenizer(url: str) -> Path:
    """The tokenizer of `hf://REPO[@REVISION]` as a file on this machine."""
    raise NotImplementedError(url)
