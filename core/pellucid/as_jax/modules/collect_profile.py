"""Command that records a running process, as `python -m jax.collect_profile`: the profiler's, if it is installed."""

import importlib
import sys
from typing import Any

from pellucid.as_jax.served_modules import own_spec

profiler: Any = importlib.import_module("pellucid.profiler")
main = importlib.import_module(f"{own_spec(profiler).name}.collect_profile").main

if __name__ == "__main__":
    sys.exit(main(command="jax.collect_profile"))
