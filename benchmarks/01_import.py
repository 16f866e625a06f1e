"""How long does the import take?"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from versus import Target, compare


def measurements(library: Any) -> dict[str, Any]:
    """Seconds of a fresh interpreter that imports the library, less those of one that imports nothing."""
    name = library.__name__

    def seconds(code: str) -> float:
        text = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        return float(subprocess.check_output([sys.executable, "-c", text], text=True))

    first = f"import {name}.numpy as jnp; (jnp.zeros(3) + 1).block_until_ready()"
    return {
        "import": lambda: min(seconds(f"import {name}") for _ in range(3)),
        "import, first array and sum": lambda: min(seconds(first) for _ in range(3)),
    }


if __name__ == "__main__":
    compare(
        __file__, {"import": Target(0.5, "ms"), "import, first array and sum": Target(1.0, "ms")}
    )
