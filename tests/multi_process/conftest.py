"""Lets tests import what they share with the processes that they start."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

# jax and pellucid can't share a process, and examples in docstrings are looked for in every module.
collect_ignore = ["inputs_of_jax.py"]
