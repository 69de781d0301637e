"""Imports: names of a package and functions that are imported when they are first used."""

import gc
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final


class _NoPandas:
    """Says of pandas that there is none."""

    @staticmethod
    def find_spec(fullname: str, *_: object) -> None:
        """Refuse pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)


_OBJECTS: Final = 100_000  # made since the last look for circles of them; Python's own is 700


def prepare_process() -> None:
    """Prepare a process of ingot's own; pyarrow imports pandas for its first array if it can.

    Rows are many objects without circles: looking for circles at Python's pace takes a tenth.
    """
    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    gc.set_threshold(_OBJECTS)


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`.

    Args:
        package: its `__name__`.
        modules: for every name the module, relative to the package, that defines it.
    """

    def load(name: str) -> Any:  # noqa: ANN401 - any of them
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{modules[name]}")
        return module if modules[name] == name else getattr(module, name)

    return load


@dataclass(frozen=True)
class LateFunction:
    """A function, `module:name`, whose module is imported when it is first called."""

    place: str

    def load(self) -> Callable[..., Any]:
        """Import the module and return the function."""
        module, _, name = self.place.partition(":")
        loaded = sys.modules.get(module) or import_module(module)
        function: Callable[..., Any] = getattr(loaded, name)
        return function

    def __call__(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - what it returns
        """Call the function."""
        return self.load()(*given, **named)
