"""Makes the pictures in docs/lake.md: a real run over examples/lake, and photographs of its page.

    python docs/img/lake_page.py          # writes docs/img/lake.png and docs/img/lake-set.png

The photographs need Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INGOT = [sys.executable, "-P", "-m", "ingot"]
OPTIONS = (
    *("--out", "lake", "--mapper", "rules", "--yes", "--min-confidence", "0.75"),
    *("--dedup", "exact", "--split", "train=0.9,valid=0.1"),
    *("--tokenizer", str(ROOT / "examples" / "tokenizer" / "tokenizer.json")),
)
# File, what the address tells the page to show, width and height in pixels.
PICTURES = (
    ("lake.png", "", 1500, 1180),
    ("lake-set.png", "#set=helpdesk", 1500, 1250),
)


def run(*command: str, cwd: Path) -> None:
    """A command that has to end well."""
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{command}: {ended.stderr}")


def chromium() -> str:
    """The browser of this system."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    return found or sys.exit("no Chromium: install it")


def photograph(url: str, png: Path, width: int, height: int) -> None:
    """What a browser shows at an address."""
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    size = f"--window-size={width},{height}"
    run(chromium(), *flags, size, f"--screenshot={png}", url, cwd=png.parent)


def main() -> None:
    """Make the lake, and the pictures of its page."""
    with tempfile.TemporaryDirectory() as folder:
        run(*INGOT, "lake", "run", str(ROOT / "examples/lake/raw"), *OPTIONS, cwd=Path(folder))
        page = (Path(folder) / "lake" / "index.html").as_uri()
        for name, fragment, width, height in PICTURES:
            photograph(page + fragment, HERE / name, width, height)


if __name__ == "__main__":
    main()
