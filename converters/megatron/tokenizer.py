"""Tokenizers as the builder needs them: a `tokenizer.json` or a SentencePiece `.model`, its facts.

What a file is decides its content, not its name. Truncation and padding that a `tokenizer.json`
may carry are never applied. An `added_tokens.json` beside a `.model` counts for nothing: its ids
are those of `sentencepiece` itself.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.framing import common_frame
from ingot.converters.megatron.loading import (
    UnloadableError,
    huggingface,
    is_unicode,
    read_bounded,
    sentencepiece,
)
from ingot.converters.megatron.mistaken import HINT, mistaken
from ingot.converters.rows import Json

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

# The largest tokenizers in use are 40 MB; a library takes many times that in memory to load one.
LARGEST_FILE: Final = 256 << 20
LARGEST_CONFIG: Final = 16 << 20
HUB: Final = "hf://"
_SHOWN: Final = 20  # special tokens in a message
_IDS: Final = 1 << 31  # beyond what a data set can hold

Kind: TypeAlias = Literal["huggingface", "sentencepiece"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerFile:
    """A tokenizer that loads, and its facts; it can be pickled.

    Attributes:
        given: as the user named it, a path or `hf://REPO[@REVISION]`.
        path: the file on this machine.
        kind: which library reads it.
        data: its bytes.
        sha256: of them.
        vocabulary: number of tokens, added ones included.
        largest_id: largest id it can give; beyond `vocabulary - 1` where the ids have holes.
        special: texts of its special tokens and their ids (of a `.model`: its control symbols).
        config: `tokenizer_config.json` beside it, empty without.
        chat_template: `chat_template.jinja` beside it, else the one in `config`.
    """

    given: str
    path: Path
    kind: Kind
    data: bytes = field(repr=False)
    sha256: str
    vocabulary: int
    largest_id: int
    special: dict[str, int] = field(repr=False)
    config: dict[str, Json] = field(repr=False)
    chat_template: str | None = field(repr=False)

    @property
    def tokenizer(self) -> "Tokenizer":
        """The `tokenizers.Tokenizer`, shared by all who ask."""
        return huggingface(self.data)


def load_tokenizer(given: str | Path) -> TokenizerFile:
    """Load a tokenizer.

    Args:
        given: a `tokenizer.json`, a `.model`, a folder that holds one of them (`tokenizer.json`
            comes first), or `hf://REPO[@REVISION]`.

    Raises:
        ConversionError: the file is missing, too large or no tokenizer; what lies beside it is
            broken; the Hub does not give it.
        StorageError: the Hub cannot be reached.
    """
    path = _located(given)
    data = read_bounded(path, LARGEST_FILE)
    try:
        kind, tokens, special = _facts(data)
    except UnloadableError as error:
        raise mistaken(str(given), data, str(error)) from error
    if not tokens:
        raise ConversionError(str(given), "the tokenizer has no tokens", "train it first")
    if max(tokens) >= _IDS:
        raise ConversionError(str(given), f"its id {max(tokens)} is no int32", "mend its ids")
    config = _config(path.with_name("tokenizer_config.json"))
    return TokenizerFile(
        given=str(given),
        path=path,
        kind=kind,
        data=data,
        sha256=hashlib.sha256(data).hexdigest(),
        vocabulary=len(tokens),
        largest_id=max(tokens),
        special=special,
        config=config,
        chat_template=_chat_template(path.with_name("chat_template.jinja"), config),
    )


def _located(given: str | Path) -> Path:
    if isinstance(given, str) and given.startswith(HUB):
        from ingot.converters.megatron.hub import fetch_tokenizer

        return fetch_tokenizer(given)
    path = Path(given)
    if not path.is_dir():
        return path
    for name in ("tokenizer.json", "tokenizer.model"):
        if (path / name).is_file():
            return path / name
    raise ConversionError(
        str(given), "the folder has no tokenizer.json and no tokenizer.model", HINT
    )


def _facts(data: bytes) -> tuple[Kind, Sequence[int], dict[str, int]]:
    """The kind, the ids of all tokens, the special ones."""
    if data.lstrip()[:1] == b"{":
        tokenizer = huggingface(data)
        ids = list(tokenizer.get_vocab(with_added_tokens=True).values())
        added = tokenizer.get_added_tokens_decoder()
        return "huggingface", ids, {t.content: n for n, t in added.items() if t.special}
    model = sentencepiece(data)
    numbers = range(model.get_piece_size())
    try:
        pieces = [model.id_to_piece(n) for n in numbers]
    except UnicodeDecodeError as error:
        raise UnloadableError(f"a piece of the model is damaged: {error}") from error
    return "sentencepiece", numbers, {pieces[n]: n for n in numbers if model.is_control(n)}


def _config(path: Path) -> dict[str, Json]:
    if not path.is_file():
        return {}
    try:
        config: Any = json.loads(read_bounded(path, LARGEST_CONFIG, "mend or remove it"))
    except (ValueError, RecursionError) as error:
        raise ConversionError(str(path), f"not JSON: {error}", "mend or remove it") from error
    if not isinstance(config, dict):
        raise ConversionError(str(path), "not a JSON object", "mend or remove it")
    return config


def _chat_template(path: Path, config: dict[str, Json]) -> str | None:
    if path.is_file():
        try:
            return read_bounded(path, LARGEST_CONFIG, "mend or remove it").decode()
        except UnicodeDecodeError as error:
            raise ConversionError(str(path), f"not UTF-8: {error}", "mend or remove it") from error
    stated = _stated_template(config)
    if stated is not None and not is_unicode(stated):
        raise ConversionError(
            str(path.with_name("tokenizer_config.json")),
            "its chat_template is no valid Unicode",
            "mend or remove it",
        )
    return stated


def _stated_template(config: dict[str, Json]) -> str | None:
    stated = config.get("chat_template")
    if isinstance(stated, list):  # named templates
        named = (one for one in stated if isinstance(one, dict) and one.get("name") == "default")
        stated = next(named, {}).get("template")
    return stated if isinstance(stated, str) else None


def find_eod(loaded: TokenizerFile) -> int:
    """The id that ends a document.

    The `eos_token` of the configuration beside the tokenizer, else the end-of-sentence piece of a
    `.model`, else the first of `EOD_TOKENS` that is a special token.

    Raises:
        ConversionError: there is none.
    """
    stated = _configured_eos(loaded.config)
    if stated is not None:
        return _stated_eod(loaded, stated)
    if loaded.kind == "sentencepiece" and sentencepiece(loaded.data).eos_id() >= 0:
        return int(sentencepiece(loaded.data).eos_id())
    found = next((loaded.special[name] for name in EOD_TOKENS if name in loaded.special), None)
    if found is None:
        names = sorted(loaded.special)
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        raise ConversionError(
            loaded.given,
            f"no special token that ends a document (it has {shown or 'no special tokens'})",
            "state the id of the EOD token, or build without EOD",
        )
    return found


def _configured_eos(config: dict[str, Json]) -> str | None:
    token = config.get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def _stated_eod(loaded: TokenizerFile, token: str) -> int:
    number = token_id(loaded, token)
    if number is None:
        raise ConversionError(
            str(loaded.path.with_name("tokenizer_config.json")),
            f"its eos_token {token!r} is not in {loaded.path.name}",
            "state the id of the EOD token, or put files of one tokenizer together",
        )
    return number


def token_id(loaded: TokenizerFile, text: str) -> int | None:
    """The id of a token by its text as the vocabulary spells it; None where there is none."""
    if not is_unicode(text):
        return None  # the libraries take no lone surrogates
    if loaded.kind == "huggingface":
        return huggingface(loaded.data).token_to_id(text)
    model = sentencepiece(loaded.data)
    number = int(model.piece_to_id(text))  # of the unknown piece for what is no piece
    return number if model.id_to_piece(number) == text else None


def frame(loaded: TokenizerFile) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer itself puts before and behind a text.

    Of a `tokenizer.json`: what `encode(add_special_tokens=True)` adds. Of a `.model`, where
    `sentencepiece` adds nothing by itself: its BOS and its EOS, unless `add_bos_token` or
    `add_eos_token` in the configuration beside it is false.

    Raises:
        ConversionError: what it adds depends on the text, or is no token.
    """
    if loaded.kind == "sentencepiece":
        model = sentencepiece(loaded.data)
        ends = ((model.bos_id(), "add_bos_token"), (model.eos_id(), "add_eos_token"))
        before, behind = (
            [int(number)] if number >= 0 and loaded.config.get(switch) is not False else []
            for number, switch in ends
        )
        return before, behind
    found = common_frame(huggingface(loaded.data))
    if found is None or max(found[0] + found[1], default=0) > loaded.largest_id:
        raise ConversionError(
            loaded.given,
            "its post-processor does more than to put constant ids around a text",
            "state --bos-id and --eos-id",
        )
    return found


def decode(loaded: TokenizerFile, ids: Sequence[int]) -> str:
    """A text to look at: special tokens by their names, `<id N>` for an id of no token."""
    named, joined = _decoder(loaded)
    parts: list[str] = []
    for plain, run in groupby(map(int, ids), lambda number: named(number) is None):
        numbers = list(run)
        parts += [joined(numbers)] if plain else [named(number) or "" for number in numbers]
    return "".join(parts)


def _decoder(
    loaded: TokenizerFile,
) -> tuple[Callable[[int], str | None], Callable[[list[int]], str]]:
    """How an id is shown by itself (None: as text), and how a run of the others is joined."""
    if loaded.kind == "huggingface":
        tokenizer = huggingface(loaded.data)

        def is_token(number: int) -> bool:
            return tokenizer.id_to_token(number) is not None

        names: dict[int, str] = {}  # the library itself shows special tokens

        def joined(numbers: list[int]) -> str:
            return tokenizer.decode(numbers, skip_special_tokens=False)

    else:
        names = {number: text for text, number in loaded.special.items()}
        model = sentencepiece(loaded.data)

        def joined(numbers: list[int]) -> str:
            return str(model.decode(numbers))

        def is_token(number: int) -> bool:
            return True  # its ids have no holes

    def named(number: int) -> str | None:
        if 0 <= number <= loaded.largest_id and is_token(number):
            return names.get(number)
        return f"<id {number}>"

    return named, joined
