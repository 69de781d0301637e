"""Kernels where they cannot be kept, and where they cannot be compiled."""

import subprocess
import sys

from ingot.converters.kernels.compile import kernel

SOURCE = "def double(value):\n    return 2 * value\n"


def test_a_kernel_that_cannot_be_kept_is_compiled_all_the_same():
    names = {}
    exec(compile(SOURCE, "<no file>", "exec"), names)  # numba keeps what lies in a file
    assert kernel(names["double"])(21) == 42


WITHOUT = """
import sys
sys.modules["numba"] = None
import importlib.util
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "numba" else known(name, *more)
import ingot.converters.recsys.ctr.build.job
from ingot.converters.recsys.ctr.build.vocabulary import Interner
import numpy as np
try:
    Interner().add(np.zeros(1, np.uint8), np.zeros(1, np.int64), np.ones(1, np.int32))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_an_install_without_numba_imports_the_build_and_names_the_extra():
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert run.stderr == ""
    assert run.stdout.startswith("ConversionError ")
    assert "pip install 'ingot[recsys]'" in run.stdout
