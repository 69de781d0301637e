"""Which modules of ingot a command enters: `python entered.py ARGUMENT...` prints them as JSON.

A module counts once one of its functions runs; what runs while modules are imported does not.
Worker processes are not looked into.
"""

import json
import sys
import threading
from types import FrameType

ENTERED: set[str] = set()


def note(frame: FrameType, event: str, argument: object) -> None:
    """Note the module of a function that is called for the first time."""
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("ingot") and name not in ENTERED and not imports(frame):
        ENTERED.add(name)


def imports(frame: FrameType | None) -> bool:
    """Whether a frame runs since a module of ingot is being imported."""
    while frame is not None:
        code, name = frame.f_code.co_name, frame.f_globals.get("__name__", "")
        if code == "<module>" and name.startswith("ingot"):
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    from ingot.cli.app import app

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        app(sys.argv[1:], prog_name="ingot")
    except SystemExit as end:
        sys.setprofile(None)
        sys.stderr.write(json.dumps({"code": end.code, "entered": sorted(ENTERED)}) + "\n")
