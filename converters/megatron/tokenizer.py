"""A Hugging Face `tokenizer.json` as the builder needs it: its facts, its EOD id, ids in bulk.

The ids are what `tokenizers` gives for the whole text with `add_special_tokens=False`: truncation
and padding that a file may carry are switched off. The text of a special token in a document is
read as that token.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Names under which tokenizers in wide use keep the token that ends a document, in this order.
EOD_TOKENS: Final = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "</s>",
    "<eos>",
    "<|eos|>",
    "<EOS>",
    "[EOS]",
    "<|im_end|>",
    "<|eot_id|>",
)

Ids: TypeAlias = npt.NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerFile:
    """A loaded tokenizer with the facts that go into `.meta.json`.

    Attributes:
        path: the file.
        sha256: of its bytes.
        vocabulary: number of tokens, added ones included.
        largest_id: largest id it can give; beyond `vocabulary - 1` where the ids have holes.
        tokenizer: the `tokenizers.Tokenizer`.
    """

    path: Path
    sha256: str
    vocabulary: int
    largest_id: int
    tokenizer: "Tokenizer"


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """Texts as ids.

    Attributes:
        ids: of all texts that could be encoded, one after another.
        lengths: int64, ids per encoded text.
        failed: positions of the texts that could not be encoded, and why.
    """

    ids: Ids
    lengths: npt.NDArray[np.int64]
    failed: tuple[tuple[int, str], ...]


class _EncodingError(Exception):
    """The library refused a call; one bad text fails its whole batch."""


def load_tokenizer(path: Path) -> TokenizerFile:
    """Load a `tokenizer.json`.

    Raises:
        ConversionError: the file is missing or no such file.
    """
    from tokenizers import Tokenizer

    data = _read(path)
    try:
        tokenizer = Tokenizer.from_buffer(data)
    except Exception as error:  # the library raises nothing more precise
        raise ConversionError(
            str(path), f"not a tokenizer: {error}", "give a Hugging Face tokenizer.json"
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = tokenizer.get_vocab(with_added_tokens=True).values()
    if not ids:
        raise ConversionError(str(path), "the tokenizer has no tokens", "train it first")
    return TokenizerFile(
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        vocabulary=len(ids),
        largest_id=max(ids),
        tokenizer=tokenizer,
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConversionError(
            str(path), f"cannot be read: {error.strerror}", "give a Hugging Face tokenizer.json"
        ) from error


def find_eod(loaded: TokenizerFile) -> int:
    """The id that ends a document.

    The `eos_token` of a `tokenizer_config.json` in the tokenizer's folder, else the first of
    `EOD_TOKENS` that is a special token of the tokenizer.

    Raises:
        ConversionError: there is none.
    """
    stated = _configured_eos(loaded.path.with_name("tokenizer_config.json"))
    if stated is not None:
        return _stated_eod(loaded, stated)
    added = loaded.tokenizer.get_added_tokens_decoder()
    special = {token.content: number for number, token in added.items() if token.special}
    found = next((special[name] for name in EOD_TOKENS if name in special), None)
    if found is None:
        raise ConversionError(
            str(loaded.path),
            "no special token that ends a document "
            f"(it has {', '.join(sorted(special)) or 'no special tokens'})",
            "state the id of the EOD token, or build without EOD",
        )
    return found


def _stated_eod(loaded: TokenizerFile, token: str) -> int:
    number = loaded.tokenizer.token_to_id(token)
    if number is None:
        raise ConversionError(
            str(loaded.path.with_name("tokenizer_config.json")),
            f"its eos_token {token!r} is not in {loaded.path.name}",
            "state the id of the EOD token, or put files of one tokenizer together",
        )
    return number


def _configured_eos(path: Path) -> str | None:
    if not path.is_file():
        return None
    try:
        config: Any = json.loads(_read(path))
    except ValueError as error:
        raise ConversionError(str(path), f"not JSON: {error}", "mend or remove it") from error
    token = config.get("eos_token") if isinstance(config, dict) else None
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def encode(tokenizer: "Tokenizer", texts: list[str]) -> Encoded:
    """Encode texts; one that the tokenizer refuses does not stop the others.

    That happens to words outside a vocabulary without an unknown token, for example.
    """
    rows, failed = _encoded_rows(tokenizer, texts, 0)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ids = np.concatenate([np.empty(0, np.uint32), *rows])
    return Encoded(ids=ids, lengths=lengths, failed=tuple(failed))


def _encoded_rows(
    tokenizer: "Tokenizer", texts: list[str], first: int
) -> tuple[list[Ids], list[tuple[int, str]]]:
    """Ids per text; a call that fails is halved until the text that failed it stands alone."""
    try:
        return _call(tokenizer, texts), []
    except _EncodingError as error:
        if len(texts) == 1:
            return [], [(first, str(error))]
    middle = len(texts) // 2
    rows, failed = _encoded_rows(tokenizer, texts[:middle], first)
    more_rows, more_failed = _encoded_rows(tokenizer, texts[middle:], first + middle)
    return rows + more_rows, failed + more_failed


def _call(tokenizer: "Tokenizer", texts: list[str]) -> list[Ids]:
    try:
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    except Exception as error:  # the library raises nothing more precise
        raise _EncodingError(str(error)) from error
    return [np.array(encoding.ids, np.uint32) for encoding in encodings]
