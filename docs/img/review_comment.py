"""Makes the picture in docs/review.md: a real review, rendered, and a photograph of the page.

    python docs/img/review_comment.py                 # writes docs/img/review-comment.png
    python docs/img/review_comment.py --html PAGE     # the page alone

A small git repository of mappings is made of examples/, changed, and reviewed with `ingot review`.
The comment is rendered by cmark-gfm with a style like that of a pull request. The photograph needs
Chromium; everything else is in the extra `dev`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cmarkgfm.cmark as cmark

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WIDTH = 800
INGOT = [sys.executable, "-P", "-m", "ingot"]
STYLE = """
body { margin: 0; background: #fff; color: #1f2328;
  font: 14px/1.5 "DejaVu Sans", "Noto Sans CJK SC", "Noto Color Emoji", sans-serif; }
.comment { margin: 16px; border: 1px solid #d1d9e0; border-radius: 6px; overflow: hidden; }
.author { padding: 8px 16px; background: #f6f8fa; border-bottom: 1px solid #d1d9e0;
  color: #59636e; }
.author b { color: #1f2328; }
.body { padding: 16px; }
.body > :first-child { margin-top: 0; }
.body > :last-child { margin-bottom: 0; }
h3 { font-size: 1.25em; } h4 { font-size: 1em; }
h3, h4 { margin: 24px 0 16px; font-weight: 600; line-height: 1.25; }
p, ul, table, pre, details { margin: 0 0 16px; }
ul { padding-left: 2em; }
code { padding: .2em .4em; background: #eff1f3; border-radius: 6px; font-size: 85%; }
code, pre { font-family: "DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace; }
pre { padding: 12px; background: #f6f8fa; border-radius: 6px; overflow: auto; line-height: 1.45; }
pre code { padding: 0; background: none; font-size: 11.5px; }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%;
  overflow: auto; }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0; text-align: left; }
th { font-weight: 600; } tr:nth-child(2n) td { background: #f6f8fa; }
summary { cursor: pointer; }
.old { background: #ffebe9; color: #82071e; display: block; }
.new { background: #dafbe1; color: #116329; display: block; }
"""


def shorter(document: dict[str, Any]) -> None:
    """What looks harmless: no input, no short answers."""
    document["messages"][0]["content"] = "instruction"
    document["where"] = [{"path": "output", "min_chars": 40}]


def trained(document: dict[str, Any]) -> None:
    """The answers of the model are not trained on where they end in a question."""
    document["messages"][0]["loss_mask"] = True


def dated(document: dict[str, Any]) -> None:
    """The date is told no more."""
    del document["meta"]["timestamp"]


CHANGED: dict[str, Callable[[dict[str, Any]], None]] = {
    "en_instructions": shorter,
    "en_chats": trained,
    "zh_townlife": dated,
}
ADDED = "zh_exam"


def run(*command: str, cwd: Path, codes: tuple[int, ...] = (0,)) -> None:
    """A command that has to end with one of some codes."""
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if ended.returncode not in codes:
        sys.exit(f"{command}: {ended.stderr}")


def proposed(repository: Path, name: str) -> None:
    """A mapping by the rules, with its pinned sample."""
    out = f"mappings/{name}.json"
    source = str(ROOT / "examples" / name)
    command = (*INGOT, "map", source, "--mapper", "rules", "-o", out, "--pin-sample")
    run(*command, cwd=repository, codes=(0, 3))  # 3: a person has to look, as one does here


def reviewed(repository: Path) -> str:
    """The comment about a branch that changes three mappings and adds one."""
    (repository / "mappings").mkdir()
    run("git", "init", "--quiet", "--initial-branch=main", cwd=repository)
    run("git", "config", "user.name", "Reviewer", cwd=repository)
    run("git", "config", "user.email", "reviewer@localhost", cwd=repository)
    for name in CHANGED:
        proposed(repository, name)
    saved(repository, "Mappings")
    run("git", "switch", "--quiet", "--create", "shorter-prompts", cwd=repository)
    for name, edit in CHANGED.items():
        file = repository / "mappings" / f"{name}.json"
        document = json.loads(file.read_text(encoding="utf-8"))
        edit(document)
        file.write_text(json.dumps(document, ensure_ascii=False, indent=2), encoding="utf-8")
    proposed(repository, ADDED)
    saved(repository, "Shorter prompts")
    sides = ("--base", "main", "--head", "shorter-prompts")
    run(*INGOT, "review", *sides, "-o", "comment.md", cwd=repository, codes=(1,))
    return (repository / "comment.md").read_text(encoding="utf-8")


def saved(repository: Path, message: str) -> None:
    """All of it as one commit."""
    run("git", "add", "--all", cwd=repository)
    run("git", "commit", "--quiet", "--message", message, cwd=repository)


def page(comment: str, most_open: int = 1) -> str:
    """The comment as a page; the first folds are open, as if a reviewer had clicked."""
    options = cmark.Options.CMARK_OPT_UNSAFE | cmark.Options.CMARK_OPT_GITHUB_PRE_LANG
    html = cmark.markdown_to_html_with_extensions(comment, options, ["table", "autolink"])
    html = html.replace("<details>", "<details open>", most_open)
    lines = [coloured(line) for line in html.splitlines()]
    body = "\n".join(lines).replace("</span>\n", "</span>")
    top = '<div class="author"><b>github-actions</b> bot commented now</div>'
    return (
        f'<!doctype html><meta charset="utf-8"><title>ingot review</title><style>{STYLE}</style>'
        f'<div class="comment">{top}<div class="body">{body}</div></div>'
    )


def coloured(line: str) -> str:
    """A line of a comparison in its colour; they are the only ones that begin so."""
    begun, sep, rest = line.rpartition('<pre lang="diff"><code>')
    kind = {"- ": "old", "+ ": "new"}.get(rest[:2])
    return f'{begun}{sep}<span class="{kind}">{rest}</span>' if kind else line


def photograph(html: Path, png: Path, height: int) -> None:
    """What a browser shows of the page."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((found for name in names if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit("no Chromium: install it, or take --html")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    size = f"--window-size={WIDTH},{height}"
    run(browser, *flags, size, f"--screenshot={png}", html.as_uri(), cwd=html.parent)


def main() -> None:
    """Make the page, and the picture of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--html", type=Path, help="write the page there, and no picture")
    parser.add_argument("--height", type=int, default=1650, help="of the picture, in pixels")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "repository"
        repository.mkdir()
        html = given.html or Path(folder) / "page.html"
        html.write_text(page(reviewed(repository)), encoding="utf-8")
        if not given.html:
            photograph(html, HERE / "review-comment.png", given.height)


if __name__ == "__main__":
    main()
