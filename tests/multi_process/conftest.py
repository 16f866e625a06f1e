"""Lets tests import what they share with the processes that they start."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
