"""Runs in a process of their own that stop where they are told to, without a word.

    python stopping.py RAW OUT SETTINGS STEP    kills itself at the STEP-th change of its files
    python stopping.py RAW OUT SETTINGS         says how many changes there are

SETTINGS is JSON. A change is what Python does to a file or folder under OUT's parent: opened,
renamed, deleted, cut, made. Others are between them: no system call of a write is told.
"""

import json
import os
import signal
import sys
from pathlib import Path

CHANGES = ("open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", "shutil.rmtree")


class Steps:
    """Counts changes; ends the process at one of them."""

    def __init__(self, folder: Path, last: int) -> None:
        self.count, self._folder, self._last = 0, str(folder.resolve()), last

    def __call__(self, event: str, told: tuple[object, ...]) -> None:
        if event not in CHANGES or not str(told[0]).startswith(self._folder):
            return
        if event == "open" and not self._writes(told):
            return
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    @staticmethod
    def _writes(told: tuple[object, ...]) -> bool:
        _, mode, flags = told
        if isinstance(mode, str):
            return mode[0] in "wa" or "+" in mode
        return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def main(raw: str, out: str, settings: str, last: int = 0) -> None:
    from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs
    from ingot.converters.recsys.criteo.preprocess.job import preprocess
    from ingot.converters.recsys.criteo.preprocess.settings import Settings

    inputs, chosen = find_inputs(raw), Settings(**json.loads(settings))
    steps = Steps(Path(out).parent, last)
    sys.addaudithook(steps)
    preprocess(inputs, chosen, Path(out))
    sys.stdout.write(str(steps.count))


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
