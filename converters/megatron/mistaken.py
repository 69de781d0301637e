"""What a file that is no tokenizer is instead, so that the error can say it."""

import binascii
import json
import re
from typing import Any, Final

from ingot.converters.errors import ConversionError

HINT: Final = "give a Hugging Face tokenizer.json or a SentencePiece .model"

# Marks of a whole file or of its start: what stands there, what it is, what to do.
_STARTS: Final = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file", "fetch the file: git lfs pull"),
    (b"#version:", "the merges.txt of a BPE tokenizer", "give the tokenizer.json beside it"),
    (b"\x1f\x8b", "gzip data", "unpack it"),
    (b"\x28\xb5\x2f\xfd", "zstandard data", "unpack it"),
    (b"PK\x03\x04", "a zip file or weights saved by torch", HINT),
    (b"\x80\x02", "a pickle", HINT),
    (b"GGUF", "a GGUF model", HINT),
    (b"\xef\xbb\xbf", "text that starts with a byte order mark", "remove the mark"),
    (b"\xff\xfe", "UTF-16 text", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "save it as UTF-8"),
    (b"<", "HTML or XML, such as an error page", "download the file itself"),
    (b"[", "a JSON list", HINT),
)
_TIKTOKEN_LINE: Final = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?")
_CONFIG_KEYS: Final = ("tokenizer_class", "model_max_length", "chat_template", "bos_token")
_CAUSE_CHARACTERS: Final = 200


def mistaken(where: str, data: bytes, cause: str) -> ConversionError:
    """The error for a file that neither library takes.

    Args:
        where: how the user named it.
        data: what the file holds.
        cause: what the library said.
    """
    found = _found(data)
    if found is None:
        line = (cause.strip().splitlines() or ["it is damaged"])[0][:_CAUSE_CHARACTERS]
        found = (line, HINT)
    problem, hint = found
    return ConversionError(where, f"not a tokenizer: {problem}", hint)


def _found(data: bytes) -> tuple[str, str] | None:
    if not data:
        return "it is empty", HINT
    for start, problem, hint in _STARTS:
        if data.startswith(start):
            return f"it is {problem}", hint
    if data.lstrip()[:1] == b"{":
        return _found_json(data)
    line = data.split(b"\n", 1)[0]
    if _TIKTOKEN_LINE.fullmatch(line) and _is_base64(line.split(b" ")[0]):
        return "it is a tiktoken file", "convert it to tokenizer.json, or take the model's own one"
    return None


def _is_base64(text: bytes) -> bool:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return False
    return True


def _found_json(data: bytes) -> tuple[str, str] | None:
    """What a JSON object is, when it is no tokenizer; None where only the library knows why."""
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as error:  # a decoding error is a ValueError too
        return f"it is not JSON, perhaps cut off: {error}"[:_CAUSE_CHARACTERS], "fetch it again"
    if isinstance(document.get("model"), dict):
        return None
    if any(key in document for key in _CONFIG_KEYS):
        return "it is a tokenizer_config.json", "give the tokenizer.json beside it"
    if document and all(isinstance(value, int) for value in document.values()):
        return "it is a vocab.json, tokens without a model", "give the tokenizer.json beside it"
    return 'it is a JSON object without "model"', HINT
