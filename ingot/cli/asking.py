"""Questions to the person at the terminal, and what is needed before anything can be asked."""

import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.converters.errors import MappingError, OutputError

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.state import State

Answer = dict[str, Any]


def mapping_file(path: Path) -> Answer:
    """The document of a mapping file.

    Raises:
        MappingError: it cannot be read, is no JSON, or is no mapping.
    """
    from ingot.converters.mapping import load

    return load(path)


def ask(state: "State", context: "Context") -> Answer:
    """Show the proposal, and the rules' beside it where they say something else; ask once."""
    second = shown(state, context)
    rules = second and second["mapping"]
    choices = "[y]es, [e]dit, [r]ules', [n]o" if rules else "[y]es, [e]dit, [n]o"
    answer = typed(f"Convert with this mapping? {choices}: ").lower()
    if answer in ("y", "yes"):
        return {"decisions": [{"type": "approve"}]}
    if answer in ("e", "edit"):
        return edited((state["proposal"] or {})["mapping"])
    if rules and answer in ("r", "rules", "rules'"):
        return in_place(rules)
    return {"decisions": [{"type": "reject", "message": "not approved"}]}


def shown(state: "State", context: "Context") -> Answer | None:
    """Show what a person has to know before they answer, the reasons to ask them last.

    Returns:
        The rules' proposal where a model's differs from it, None else.
    """
    from ingot.agent.gates import of_state
    from ingot.agent.preview import preview
    from ingot.cli import show
    from ingot.cli.console import notes, plain

    console = notes()
    console.print(plain(show.summary_line(state["proposal"] or {}), "bold"))
    try:
        show.preview(console, preview(state, context))
    except MappingError as error:
        console.print(plain(str(error), "red"))
    gates = [gate.to_json() for gate in of_state(state)]
    show.gates(console, gates)
    show.reserved(console, gates)
    show.problems(console, state.get("problems", []))
    second = _second(state)
    if second:
        show.other(console, second)
    return second


def _second(state: "State") -> Answer | None:
    """The rules' proposal where a model's differs from it."""
    opinion = state.get("opinion")
    return None if not opinion or opinion["agrees"] else opinion["proposal"]


def typed(question: str) -> str:
    """What the person typed, "" at the end of input."""
    from ingot.cli.console import notes, plain

    try:
        return notes().input(plain(question)).strip()
    except EOFError:
        return ""


def edited(mapping: Answer) -> Answer:
    """The mapping as it comes back from the person's editor; an empty file leaves it as it was."""
    text = json.dumps(mapping, ensure_ascii=False, indent=2) + "\n"
    while True:
        text = _in_editor(text)
        if not text.strip():
            return in_place(mapping)
        try:
            document = json.loads(text)
        except ValueError as error:
            ways = "Return goes back to the editor, q leaves the mapping as it was"
            if typed(f"That is no JSON ({error}). {ways}: ").lower() == "q":
                return in_place(mapping)
            continue
        return in_place(document)


def in_place(mapping: Answer) -> Answer:
    """The answer that puts this mapping in place of the proposed one; it is shown and asked for."""
    action = {"name": "convert", "args": {"mapping": mapping}}
    return {"decisions": [{"type": "edit", "edited_action": action}]}


def _in_editor(text: str) -> str:
    """The text after $VISUAL or $EDITOR had it.

    Raises:
        OutputError: there is no such editor, or it failed.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        file = Path(folder, "mapping.json")
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            hint = "set EDITOR to an editor that waits until the file is closed"
            raise OutputError(editor, "the editor failed", hint) from error
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise OutputError(
                editor, "the file came back in another encoding than UTF-8"
            ) from error
