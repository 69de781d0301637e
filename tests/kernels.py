"""Compiles the kernels before the suite's processes would each do it for themselves.

What is compiled is kept beside the modules. Commands are run for it, on small data.
"""

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = "tests/golden/monolith"
CLICKS = (
    "ctr build --skeleton examples/ctr/sample_skeleton_train.csv "
    "--common examples/ctr/common_features_train.csv "
    "--featuremap examples/ctr/featuremap.yaml --out {}/ctr",
    "criteo preprocess --input-dir examples/criteo --out {}/criteo",
)
MONOLITH = (
    f"monolith convert {GOLDEN}/mono_examplebatch_sortid.pb {{}}/a.pb "
    "--from examplebatch --to example",
    "monolith convert {0}/a.pb {0}/b.pb --from example --to examplebatch --negative-rate 1",
    "monolith convert {0}/a.pb {0}/c.parquet --from example --to parquet",
    "monolith convert {0}/c.parquet {0}/d.pb --from parquet --to example",
    "monolith stats {0}/a.pb",
)

# Runs the commands of its arguments in one process.
RUN_ALL = """
import sys
from ingot.cli.app import app
for command in sys.argv[1:]:
    app(command.split(), standalone_mode=False)
"""


def compile_kernels() -> None:
    """Compile all of them, in two processes."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        list(pool.map(lambda commands: _run(commands, folder), (CLICKS, MONOLITH)))


def _run(commands: tuple[str, ...], folder: str) -> None:
    words = [sys.executable, "-c", RUN_ALL, *(command.format(folder) for command in commands)]
    # What fails here fails in its tests, with a better message.
    subprocess.run(words, cwd=ROOT, check=False, capture_output=True)
