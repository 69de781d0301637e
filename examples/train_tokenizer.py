"""Trains the small tokenizer of the examples: byte-level BPE on the texts of the example data sets.

    python examples/train_tokenizer.py [TARGET]

TARGET defaults to `examples/tokenizer/tokenizer.json`, the file that `make demo` and the tests
use. The same data give the same bytes (`tokenizers` 0.21 to 0.23). It is made for showing how
things fit together: with fewer than 40,000 characters to learn from it knows little of either
language, but every text survives the round trip.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ingot.converters.rows import Json
from ingot.converters.sources import open_source

HERE = Path(__file__).resolve().parent
TARGET = HERE / "tokenizer" / "tokenizer.json"
CORPORA = ("en_chats", "en_field_notes", "en_instructions", "zh_exam", "zh_townlife")
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 3000


def texts_of(value: Json) -> Iterator[str]:
    """Every string in a row, in file order; keys are not text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


def corpus() -> Iterator[str]:
    """The texts of all the data sets that hold any, read as ingot reads them."""
    for name in CORPORA:
        for batch in open_source(str(HERE / name)).batches():
            for row in batch.values:
                yield from texts_of(row)


def train() -> Tokenizer:
    """Train on `corpus()`; ids 0 to 2 are the special tokens, 3 to 258 the bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=2,
        show_progress=False,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def main(target: Path) -> None:
    """Train and write `target`, a `tokenizer.json` of the `tokenizers` library."""
    target.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = train()
    tokenizer.save(str(target))
    print(f"{target}: {tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
