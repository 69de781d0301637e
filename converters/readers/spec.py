"""Facts about the files of a source: the `source` block of a mapping, as a value."""

from dataclasses import dataclass, fields

from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSpec:
    """What a mapping or a user states about the files; None = let the reader find out.

    The keys and their meaning are those of section 5 of the language (docs/mapping.md).
    """

    files: tuple[str, ...] | None = None
    format: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    quote: str | None = None
    columns: tuple[str, ...] | None = None
    root: str | None = None
    json_fields: tuple[str, ...] | None = None

    @classmethod
    def from_document(cls, document: dict[str, Json] | None) -> "SourceSpec":
        """Build from a (schema-valid) `source` block."""
        block: dict[str, Json] = document or {}
        values: dict[str, Json] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in block.items()
        }
        return cls(**values)

    def to_document(self) -> dict[str, Json]:
        """The `source` block of a mapping: stated keys only, in the order of this class."""
        stated = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            k: list(v) if isinstance(v, tuple) else v for k, v in stated.items() if v is not None
        }
