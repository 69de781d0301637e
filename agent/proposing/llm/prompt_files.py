"""Prompt files: Markdown with front matter, read from the package `ingot.prompts`.

A prompt file opens with a block between two `---` lines that holds exactly `name`, `purpose` and
`variables` (names in the order of first use, separated by commas; empty = none); in the text a
variable is written `<<name>>`. Values are data: a `<<name>>` inside a value stays as it is.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

_FRONT = re.compile(r"\A---\n(.*?)\n---\n+(.*)\Z", re.DOTALL)
_KEYS = ("name", "purpose", "variables")
_VARIABLE = re.compile(r"<<([a-z_]+)>>")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A prompt: its name, what it is for, its variables, its text, and the hash of its file."""

    name: str
    purpose: str
    variables: tuple[str, ...]
    text: str
    sha256: str

    def render(self, **values: str) -> str:
        """The text with every variable filled in."""
        if set(values) != set(self.variables):
            wrong = sorted(set(values) ^ set(self.variables))
            raise ValueError(
                f"prompt {self.name}: missing or unknown variables: {', '.join(wrong)}"
            )
        return _VARIABLE.sub(lambda found: values[found[1]], self.text)


def parse_prompt(content: str, *, where: str) -> Prompt:
    """A prompt from the content of its file."""
    found = _FRONT.match(content)
    if not found:
        raise ValueError(f"{where}: a prompt file opens with front matter between two --- lines")
    front = _parse_front(found[1], where)
    names = tuple(name.strip() for name in front["variables"].split(",") if name.strip())
    text = found[2].strip() + "\n"
    used = tuple(dict.fromkeys(_VARIABLE.findall(text)))
    if names != used:
        raise ValueError(f"{where}: variables says {list(names)}, the text uses {list(used)}")
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Prompt(
        name=front["name"], purpose=front["purpose"], variables=names, text=text, sha256=digest
    )


def _parse_front(block: str, where: str) -> dict[str, str]:
    front: dict[str, str] = {}
    for line in block.splitlines():
        key, colon, value = line.partition(":")
        if not colon or key not in _KEYS or key in front:
            raise ValueError(f"{where}: front matter line {line!r}; keys are {', '.join(_KEYS)}")
        front[key] = value.strip()
    missing = [key for key in _KEYS if key not in front]
    if missing:
        raise ValueError(f"{where}: the front matter lacks {', '.join(missing)}")
    return front


@cache
def load_prompt(name: str) -> Prompt:
    """The prompt `prompts/NAME.md` of the package."""
    file = resources.files("ingot.prompts") / f"{name}.md"
    return parse_prompt(file.read_text(encoding="utf-8"), where=f"prompts/{name}.md")


def prompts_hash(*names: str) -> str:
    """One hash over prompt files, so that a mapping can say what its model was told."""
    joined = "".join(load_prompt(name).sha256 for name in names)
    return hashlib.sha256(joined.encode()).hexdigest()
