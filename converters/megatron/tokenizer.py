"""Load a tokenizer with its facts: a `tokenizer.json` or a SentencePiece `.model`.

The content of a file decides its kind, not its name. Truncation and padding that a `tokenizer.json`
may carry are never applied. An `added_tokens.json` beside a `.model` is ignored: its ids are those
of `sentencepiece` itself. The check of special tokens compares what a training expects.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.tokenizer_files import (
    TOKENIZER_HINT,
    UnloadableError,
    common_frame,
    fetch_tokenizer,
    is_unicode,
    load_huggingface,
    load_sentencepiece,
    read_bounded_file,
    wrong_file_error,
)
from ingot.converters.rows import Json

# Names under which tokenizers in wide use keep the token that ends a document, in this order.
EOD_TOKENS: Final = (
    *("<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>", "<|eos|>"),
    *("<EOS>", "[EOS]", "<|im_end|>", "<|eot_id|>"),
)

# The largest tokenizers in use are 40 MB; a library takes many times that in memory to load one.
LARGEST_TOKENIZER: Final = 256 << 20
LARGEST_CONFIG: Final = 16 << 20
HUB_SCHEME: Final = "hf://"
_SHOWN: Final = 20  # special tokens in a message
_IDS: Final = 1 << 31  # beyond what a data set can hold

TokenizerKind: TypeAlias = Literal["huggingface", "sentencepiece"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerFile:
    """A tokenizer that loads, and its facts; it can be pickled."""

    given: str  # as the user named it, a path or `hf://REPO[@REVISION]`
    path: Path  # the file on this machine
    kind: TokenizerKind  # which library reads it
    data: bytes = field(repr=False)
    sha256: str
    vocabulary: int  # number of tokens, added ones included
    largest_id: int  # largest id it can give; beyond `vocabulary - 1` where the ids have holes
    # texts of its special tokens and their ids (of a `.model`: its control symbols)
    special: dict[str, int] = field(repr=False)
    config: dict[str, Json] = field(repr=False)  # `tokenizer_config.json` beside it, empty without
    # `chat_template.jinja` beside it, else the one in `config`
    chat_template: str | None = field(repr=False)


def load_tokenizer(location: str | Path) -> TokenizerFile:
    """Load a tokenizer."""
    path = _locate_file(location)
    data = read_bounded_file(path, LARGEST_TOKENIZER)
    try:
        kind, tokens, special = _read_facts(data)
    except UnloadableError as error:
        raise wrong_file_error(str(location), data, str(error)) from error
    if not tokens:
        raise ConversionError(str(location), "the tokenizer has no tokens", "train it first")
    if max(tokens) >= _IDS:
        raise ConversionError(
            str(location), f"its id {max(tokens)} is not an int32", "mend its ids"
        )
    config = _read_config(path.with_name("tokenizer_config.json"))
    return TokenizerFile(
        given=str(location),
        path=path,
        kind=kind,
        data=data,
        sha256=hashlib.sha256(data).hexdigest(),
        vocabulary=len(tokens),
        largest_id=max(tokens),
        special=special,
        config=config,
        chat_template=_read_chat_template(path.with_name("chat_template.jinja"), config),
    )


def _locate_file(location: str | Path) -> Path:
    if isinstance(location, str) and location.startswith(HUB_SCHEME):
        return fetch_tokenizer(location)
    path = Path(location)
    if not path.is_dir():
        return path
    for name in ("tokenizer.json", "tokenizer.model"):
        if (path / name).is_file():
            return path / name
    problem = "the folder has no tokenizer.json and no tokenizer.model"
    raise ConversionError(str(location), problem, TOKENIZER_HINT)


def _read_facts(data: bytes) -> tuple[TokenizerKind, Sequence[int], dict[str, int]]:
    if data.lstrip()[:1] == b"{":
        tokenizer = load_huggingface(data)
        ids = list(tokenizer.get_vocab(with_added_tokens=True).values())
        added = tokenizer.get_added_tokens_decoder()
        return "huggingface", ids, {t.content: n for n, t in added.items() if t.special}
    model = load_sentencepiece(data)
    numbers = range(model.get_piece_size())
    try:
        pieces = [model.id_to_piece(n) for n in numbers]
    except UnicodeDecodeError as error:
        raise UnloadableError(f"a piece of the model is damaged: {error}") from error
    return "sentencepiece", numbers, {pieces[n]: n for n in numbers if model.is_control(n)}


def _read_config(path: Path) -> dict[str, Json]:
    if not path.is_file():
        return {}
    try:
        config: Any = json.loads(read_bounded_file(path, LARGEST_CONFIG, "mend or remove it"))
    except (ValueError, RecursionError) as error:
        raise ConversionError(str(path), f"not JSON: {error}", "mend or remove it") from error
    if not isinstance(config, dict):
        raise ConversionError(str(path), "not a JSON object", "mend or remove it")
    return config


def _read_chat_template(path: Path, config: dict[str, Json]) -> str | None:
    if path.is_file():
        try:
            return read_bounded_file(path, LARGEST_CONFIG, "mend or remove it").decode()
        except UnicodeDecodeError as error:
            raise ConversionError(str(path), f"not UTF-8: {error}", "mend or remove it") from error
    template = config.get("chat_template")
    if isinstance(template, list):  # named templates
        default_templates = (
            one for one in template if isinstance(one, dict) and one.get("name") == "default"
        )
        template = next(default_templates, {}).get("template")
    if not isinstance(template, str):
        return None
    if not is_unicode(template):
        config_path = str(path.with_name("tokenizer_config.json"))
        raise ConversionError(
            config_path, "its chat_template is not valid Unicode", "mend or remove it"
        )
    return template


def find_eod(loaded: TokenizerFile) -> int:
    """Return the id that ends a document.

    It is the `eos_token` of the configuration beside the tokenizer, else the end-of-sentence piece
    of a `.model`, else the first of `EOD_TOKENS` that is a special token.
    """
    eos_token = special_texts(loaded.config).get("eos_token")
    if eos_token is not None:
        number = token_id(loaded, eos_token)
        if number is None:
            config_path = str(loaded.path.with_name("tokenizer_config.json"))
            problem = f"its eos_token {eos_token!r} is not in {loaded.path.name}"
            hint = "state the id of the EOD token, or put files of one tokenizer together"
            raise ConversionError(config_path, problem, hint)
        return number
    if loaded.kind == "sentencepiece" and load_sentencepiece(loaded.data).eos_id() >= 0:
        return int(load_sentencepiece(loaded.data).eos_id())
    eod_id = next((loaded.special[name] for name in EOD_TOKENS if name in loaded.special), None)
    if eod_id is None:
        names = sorted(loaded.special)
        known = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        problem = f"no special token that ends a document (it has {known or 'no special tokens'})"
        hint = "state the id of the EOD token, or build without EOD"
        raise ConversionError(loaded.given, problem, hint)
    return eod_id


def special_texts(config: Mapping[str, Json]) -> dict[str, str]:
    """Return the texts of special tokens that a configuration states, such as `eos_token`."""
    texts = {
        name: token.get("content") if isinstance(token, dict) else token
        for name, token in config.items()
        if name.endswith("_token")
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def token_id(loaded: TokenizerFile, text: str) -> int | None:
    """Return the id of a token by its text in the vocabulary, None if there is none."""
    if not is_unicode(text):
        return None  # the libraries take no lone surrogates
    if loaded.kind == "huggingface":
        return load_huggingface(loaded.data).token_to_id(text)
    model = load_sentencepiece(loaded.data)
    number = int(model.piece_to_id(text))  # of the unknown piece for what is no piece
    return number if model.id_to_piece(number) == text else None


def tokenizer_frame(loaded: TokenizerFile) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer itself puts before and behind a text.

    Of a `tokenizer.json`: what `encode(add_special_tokens=True)` adds. Of a `.model`, where
    `sentencepiece` adds nothing by itself: its BOS and its EOS, unless `add_bos_token` or
    `add_eos_token` in the configuration beside it is false.
    """
    if loaded.kind == "sentencepiece":
        model = load_sentencepiece(loaded.data)
        edges = ((model.bos_id(), "add_bos_token"), (model.eos_id(), "add_eos_token"))
        before, after = (
            [int(number)] if number >= 0 and loaded.config.get(switch) is not False else []
            for number, switch in edges
        )
        return before, after
    frame = common_frame(load_huggingface(loaded.data))
    if frame is None or max(frame[0] + frame[1], default=0) > loaded.largest_id:
        problem = "its post-processor does more than to put constant ids around a text"
        raise ConversionError(loaded.given, problem, "state `bos_id` and `eos_id`")
    return frame


def decode_ids(loaded: TokenizerFile, ids: Sequence[int]) -> str:
    """Return readable text: special tokens by their names, `<id N>` for an id without a token."""
    token: Callable[[int], str | None]
    join: Callable[[list[int]], str]
    if loaded.kind == "huggingface":
        tokenizer = load_huggingface(loaded.data)
        names: dict[int, str] = {}  # the library itself shows special tokens
        token, join = tokenizer.id_to_token, partial(tokenizer.decode, skip_special_tokens=False)
    else:
        model = load_sentencepiece(loaded.data)
        names = {number: text for text, number in loaded.special.items()}
        token, join = model.id_to_piece, model.decode

    def special_name(number: int) -> str | None:
        if 0 <= number <= loaded.largest_id and token(number) is not None:
            return names.get(number)
        return f"<id {number}>"

    parts: list[str] = []
    for is_plain, run in groupby(map(int, ids), lambda number: special_name(number) is None):
        numbers = list(run)
        parts += [join(numbers)] if is_plain else [special_name(number) or "" for number in numbers]
    return "".join(parts)


LARGEST_SPECIAL_FILE: Final = 4 << 20
_SPECIAL_HINT: Final = 'give a JSON object of tokens and their ids, {"<|im_start|>": 73441}'
_SHOWN_CHARS: Final = 80
_DIGITS: Final = 100  # of a number that is read at all


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecialCheck:
    """What came of the check."""

    tokenizer_path: str  # the tokenizer as the user named it
    strict: bool  # whether a difference is an error
    checked: int = 0  # how many tokens were stated
    # stated tokens that the tokenizer does not have, with their stated ids
    missing: dict[str, int] = field(default_factory=dict)
    # stated tokens with another id: the stated one, the one it has
    mismatched: dict[str, tuple[int, int]] = field(default_factory=dict)
    # stated BOS and EOS ids that are no special tokens: option, id
    odd: tuple[tuple[str, int], ...] = ()

    def to_document(self) -> dict[str, Json]:
        """Return the section `special_tokens_check` of `.meta.json`."""
        return {
            "tokenizer_path": self.tokenizer_path,
            "strict": self.strict,
            "checked": self.checked,
            "missing": list(self.missing),
            "mismatched": {
                token: {"expected_id": expected, "actual_id": actual}
                for token, (expected, actual) in self.mismatched.items()
            },
        }

    def warnings(self) -> Iterator[tuple[str, dict[str, Json]]]:
        """Yield events for the log, level `warn` and component `tokenizer`, and their fields."""
        events: dict[str, Mapping[str, tuple[int, int | None]]] = {
            "special_token_missing": {token: (n, None) for token, n in self.missing.items()},
            "special_token_mismatch": self.mismatched,
        }
        for event, tokens in events.items():
            for token, (expected, actual) in tokens.items():
                yield event, {"token": token, "expected_id": expected, "actual_id": actual}
        for option, number in self.odd:
            yield "special_id_not_special", {"option": option, "actual_id": number}


def check_special(
    loaded: TokenizerFile,
    path: Path | None,
    *,
    strict: bool,
    bos_id: int | None = None,
    eos_id: int | None = None,
) -> SpecialCheck:
    """Compare what is expected of special tokens with what a tokenizer has."""
    expected = {} if path is None else _read_expected(path)
    actual = {token: token_id(loaded, token) for token in expected}
    check = SpecialCheck(
        tokenizer_path=loaded.given,
        strict=strict,
        checked=len(expected),
        missing={token: number for token, number in expected.items() if actual[token] is None},
        mismatched={
            token: (number, actual_id)
            for token, number in expected.items()
            if (actual_id := actual[token]) is not None and actual_id != number
        },
        odd=tuple(_list_unspecial(loaded, {"bos_id": bos_id, "eos_id": eos_id})),
    )
    differing = [f"{token!r} is missing, expected {n}" for token, n in check.missing.items()]
    for token, (expected_id, actual_id) in check.mismatched.items():
        differing.append(f"{token!r} is {actual_id}, expected {expected_id}")
    if strict and differing:
        listed = "; ".join(differing)
        problem = f"{len(differing)} of {check.checked} special tokens differ: {listed}"
        hint = (
            "update added_tokens of tokenizer.json, or take the tokenizer of the right repository"
        )
        raise ConversionError(loaded.given, problem, hint)
    return check


def _list_unspecial(
    loaded: TokenizerFile, options: dict[str, int | None]
) -> Iterator[tuple[str, int]]:
    special = frozenset(loaded.special.values())
    for option, number in options.items():
        if number is None or number in special:
            continue
        if not 0 <= number <= loaded.largest_id:
            problem = f"has no id {number}, which `{option}` states"
            hint = f"its ids go from 0 to {loaded.largest_id}"
            raise ConversionError(loaded.given, problem, hint)
        yield option, number


def _read_expected(path: Path) -> dict[str, int]:
    data = read_bounded_file(path, LARGEST_SPECIAL_FILE, _SPECIAL_HINT)
    try:
        unique, integer = partial(_refuse_duplicates, path), partial(_parse_integer, path)
        document: Any = json.loads(data, object_pairs_hook=unique, parse_int=integer)
    except RecursionError as error:
        raise ConversionError(str(path), "not JSON: nested too deeply", _SPECIAL_HINT) from error
    except ValueError as error:  # a decoding error is one, too
        raise ConversionError(str(path), f"not JSON: {error}", _SPECIAL_HINT) from error
    if not isinstance(document, dict):
        raise ConversionError(str(path), "not a JSON object", _SPECIAL_HINT)
    for token, number in document.items():
        if not is_unicode(token):
            raise ConversionError(str(path), f"{token!r} is not valid Unicode", _SPECIAL_HINT)
        if type(number) is not int or not 0 <= number < _IDS:  # a bool is an int
            text = json.dumps(number)[:_SHOWN_CHARS]
            raise ConversionError(str(path), f"the id of {token!r} is {text}", _SPECIAL_HINT)
    return document


def _parse_integer(path: Path, digits: str) -> int:
    if len(digits) > _DIGITS:
        problem = f"it holds a number of {len(digits):,} digits, which cannot be an id"
        raise ConversionError(str(path), problem, _SPECIAL_HINT)
    return int(digits)


def _refuse_duplicates(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without a key that stands twice: which id was meant is not guessed."""
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ConversionError(str(path), f"{key!r} stands in it twice", "remove one of them")
        members[key] = value
    return members
