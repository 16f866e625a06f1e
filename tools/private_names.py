"""Lists the private names of jax that libraries read and pellucid doesn't serve in its place, each with what to use instead.

`python tools/private_names.py` looks up those of `tests/corpus/private_names.txt`; a file given as argument has others, one below `jax._src`
in each line. It fails where a name that isn't served doesn't say what to use.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from pellucid import as_jax

NAMES = Path(__file__).parent.parent / "tests" / "corpus" / "private_names.txt"


def reason(name: str) -> str | None:
    """What the message for a name below `jax._src` says to use instead of it; None where the name is served."""
    owner = importlib.import_module("jax._src")
    try:
        for part in name.split("."):
            owner = getattr(owner, part)
    except AttributeError as error:
        said, _, use = str(error).partition("\n")
        if not said.startswith(f"`jax._src.{name}` is private to jax") or not use.strip():
            raise LookupError(f"{name}: the message doesn't say what to use: {error}") from error
        return use.strip()
    return None


def main() -> None:
    """Print the unserved names with their reasons, and how many there are of how many."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("file", nargs="?", type=Path, default=NAMES)
    lines = arguments.parse_args().file.read_text(encoding="utf-8").splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    as_jax.install()
    unserved = {name: why for name in names if (why := reason(name)) is not None}
    for name, why in unserved.items():
        print(f"{name}: {why}")
    print(f"{len(unserved)} of {len(names)} names aren't served")


if __name__ == "__main__":
    main()
