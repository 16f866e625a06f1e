"""Modules that `import pellucid` loads, and its time."""

import subprocess
import sys

FORBIDDEN = {
    "IPython",
    "anywidget",
    "ipykernel",
    "jax",
    "matplotlib",
    "pellucid_kernel",
    "pellucid_profiler",
    "pellucid_viz",
    "scipy",
}

LIST_MODULES = "import sys, pellucid; print(*{name.partition('.')[0] for name in sys.modules})"


def test_core_imports_no_tool_and_nothing_heavy() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", LIST_MODULES], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "numpy" in listed
    assert FORBIDDEN.isdisjoint(listed)
