"""Installs kernelspecs with another number of devices: `python -m pellucid_kernel.install --devices 16`.

JupyterLab's launcher then lists "Pellucid (16 devices)" beside "Pellucid".
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager


def install(devices: int, *, prefix: str | None = None) -> str:
    """Installs a kernelspec whose kernels have `devices` virtual CPU devices, and returns its folder.

    Without `prefix` it is installed for the current user only.
    """
    spec = {
        "argv": [sys.executable, "-Xfrozen_modules=off", "-m", "pellucid_kernel", "-f", "{connection_file}"],
        "display_name": f"Pellucid ({devices} {'device' if devices == 1 else 'devices'})",
        "language": "python",
        "env": {"PELLUCID_NUM_CPU_DEVICES": str(devices)},
        "metadata": {"debugger": True, "supported_encryption": ["curve"]},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.json").write_text(json.dumps(spec, indent=2), encoding="utf-8")
        return KernelSpecManager().install_kernel_spec(
            folder, f"pellucid-{devices}", user=prefix is None, prefix=prefix
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Install a kernel with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m pellucid_kernel.install", description=__doc__)
    parser.add_argument(
        "--devices", type=_count, required=True, help="how many virtual CPU devices"
    )
    parser.add_argument(
        "--prefix", help="install into PREFIX/share/jupyter instead of the user's folder"
    )
    options = parser.parse_args(arguments)
    print(install(options.devices, prefix=options.prefix))  # noqa: T201


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("a kernel needs at least one device")
    return count


if __name__ == "__main__":
    main()
