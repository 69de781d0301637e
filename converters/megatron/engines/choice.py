"""The engine a build runs with: a value that travels to worker processes as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ingot.converters.megatron.engines.codepoints import Ranges
from ingot.converters.rows import Json

# The names the reference goes by; it needs no gate and no watching.
REFERENCES: Final = ("hf", "sentencepiece")


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """An engine, and what is known about it for one tokenizer.

    Attributes:
        engine: `hf`, `sentencepiece`, `gigatoken` or `fastokens`.
        version: of its library.
        denied: code points it gets wrong, as ranges: texts that hold one go to the reference.
        plain: the texts of special tokens are split like other text.
        rates: MB of text per second, by engine, where they were raced.
    """

    engine: str
    version: str
    denied: Ranges = ()
    plain: bool = False
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_reference(self) -> bool:
        """Whether the engine is the one the others are compared with."""
        return self.engine in REFERENCES

    def to_document(self) -> dict[str, Json]:
        """The choice as plain JSON."""
        return {
            "engine": self.engine,
            "version": self.version,
            "denied": [[first, last] for first, last in self.denied],
            "plain": self.plain,
            "rates": dict(self.rates),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Choice":
        """The choice that `to_document` wrote."""
        return cls(
            engine=document["engine"],
            version=document["version"],
            denied=tuple((first, last) for first, last in document["denied"]),
            plain=document["plain"],
            rates=dict(document["rates"]),
        )
