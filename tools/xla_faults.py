"""Lists the faults of XLA that lowering works around, and runs the evidence of one without its workaround.

`python tools/xla_faults.py NAME`: where the tests pass, XLA is mended, and the row can go. A fault may end the process.
"""

import argparse
import shlex
import sys
from pathlib import Path

import pytest

from pellucid._machine.lowering.faults import FAULTS, without_workaround

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print the table, or run one row's tests; the exit status is pytest's."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("name", nargs="?", choices=sorted(FAULTS))
    options = arguments.parse_args()
    if options.name is None:
        for fault in FAULTS.values():
            platform = " on CPUs" if fault.is_of_cpus else ""
            print(f"{fault.name} ({fault.scope}{platform}): {fault.effect}\n    {fault.evidence}")
        return 0
    with without_workaround(options.name):
        evidence = shlex.split(FAULTS[options.name].evidence)
        return pytest.main(["-q", "-x", "-p", "no:xdist", f"--rootdir={ROOT}", *evidence])


if __name__ == "__main__":
    sys.exit(main())
