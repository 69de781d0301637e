"""Imports: names of a package that are imported when they are first used, and paths that moved."""

import gc
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

# Module paths of ingot 0.1 that documents showed, kept for one release: each import warns once.
MOVED: Final = {
    "ingot.agent.preview": "ingot.agent.reporting.preview",
    "ingot.converters.criteo": "ingot.converters.recsys.criteo",
    "ingot.converters.ctr": "ingot.converters.recsys.ctr",
    "ingot.converters.monolith": "ingot.converters.recsys.monolith",
    "ingot.converters.readers": "ingot.converters.sources",
}


# Python asks for these methods only: importing its base classes costs as much as all of ingot.
class _MovedModules:
    """Finds a module, or one inside a package, where it stands now."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that has moved, None for any other."""
        loader: Any = self
        return ModuleSpec(fullname, loader) if _new_name(fullname) else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make the empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module itself in the place of the empty one that stands under its old name."""
        old = module.__name__
        new = _new_name(old)
        text = f"{old} has moved to {new}: the old path will be removed in the next release"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(new)


def _new_name(name: str) -> str:
    """The present name of a module; empty where it has not moved."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return new + name.removeprefix(old)
    return ""


def install_moved() -> None:
    """Let paths that moved be imported."""
    finder: Any = _MovedModules()
    sys.meta_path.insert(0, finder)


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
