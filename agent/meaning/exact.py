"""When two parts of a mapping document are the same to the conversion."""

import json

from ingot.converters.paths import Key, Names, Path, Step, compile_path, quote_name, steps_text
from ingot.converters.rows import Json


def exactly(value: Json) -> str:
    """A text that two values share only where the conversion cannot tell them apart.

    `true` is not 1, and 1 is not 1.0: they are spelt otherwise in a text.
    """
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def plainest(path: Path) -> Path:
    """The path with every key unquoted that can be: a name alone is exactly that key, too."""
    exact: list[Step] = [_exact(step) for step in path.steps]
    steps: list[Step] = []
    for step, following in zip(exact, [*exact[1:], None], strict=False):
        alone = not isinstance(following, Names) and not (steps and isinstance(steps[-1], Names))
        if isinstance(step, Key) and alone and quote_name(step.name) == step.name:
            step = Names((step.name,))
        steps.append(step)
    return compile_path(steps_text(tuple(steps)))


def _exact(step: Step) -> Step:
    return Key(step.names[0]) if isinstance(step, Names) and len(step.names) == 1 else step
