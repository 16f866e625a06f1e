"""Runs a script or a module whose `import jax` is answered by pellucid: `python -m pellucid.as_jax script.py`."""

import argparse
import runpy
import sys
from pathlib import Path

from pellucid.as_jax.finder import install


def main() -> None:
    """Run what the command line names, with the arguments that follow it."""
    parser = argparse.ArgumentParser(prog="python -m pellucid.as_jax", description=__doc__)
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="run a module by its name"
    )
    parser.add_argument("--jax-version", help="what `jax.__version__` is, 0.10.2 for example")
    parser.add_argument("program", help="a file, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    options = parser.parse_args()
    install(options.jax_version)
    sys.argv = [options.program, *options.arguments]
    if options.is_module:
        sys.path[0] = ""
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(options.program).resolve().parent)
        runpy.run_path(options.program, run_name="__main__")


if __name__ == "__main__":
    main()
