"""`root`: where the rows of a JSON file lie, compiled for a reader that streams."""

from dataclasses import dataclass

from ingot.converters.errors import SourceError
from ingot.converters.paths import Key, Mark, Names, PathSyntaxError, Step, compile_path, steps_text

_WILD = (Mark("[*]"), Mark("*"), Mark(".*"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """Where the rows lie.

    Attributes:
        text: as written.
        names: plain names and keys that lead to the container, outermost first.
        exact: for each of them, whether it is one key for certain (quoted).
        keyed: the container is an object, whose keys name the rows; else it is a list.
        rest: path from an element of the container to the rows, None where elements are rows.
        streams: False where the whole file has to be in memory (`$`, an index on the way).
    """

    text: str
    names: tuple[str, ...] = ()
    exact: tuple[bool, ...] = ()
    keyed: bool = False
    rest: str | None = None
    streams: bool = True

    @property
    def whole(self) -> bool:
        """Whether the file itself is the one row."""
        return self.text == "$"


def compile_root(text: str, where: str) -> Root:
    """Compile a root. Raises SourceError for what is no path."""
    if text == "$":
        return Root(text=text, streams=False)
    try:
        path = compile_path(text)
    except PathSyntaxError as error:
        hint = f"for example {error.nearest}" if error.nearest else "for example data[*] or *"
        raise SourceError(where, f"root {text!r}: {error.problem}", hint) from error
    place = path.first_wildcard
    names = None if place is None else _names(path.steps[:place])
    if place is None or names is None:
        return Root(text=text, streams=False)
    rest = path.steps[place + 1 :]
    return Root(
        text=text,
        names=tuple(name for name, _ in names),
        exact=tuple(exact for _, exact in names),
        keyed=path.steps[place] != Mark("[*]"),
        rest=steps_text(rest) if rest else None,
    )


def _names(steps: tuple[Step, ...]) -> list[tuple[str, bool]] | None:
    """The keys of a way made of names only, else None."""
    names: list[tuple[str, bool]] = []
    for step in steps:
        if isinstance(step, Names):
            names += [(name, False) for name in step.names]
        elif isinstance(step, Key):
            names.append((step.name, True))
        else:
            return None
    return names
