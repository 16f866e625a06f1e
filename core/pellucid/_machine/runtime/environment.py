"""Facts about the machine for the report of a problem."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np

from pellucid._machine.xla.compile import jaxlib_version
from pellucid.version import __version__

from . import platforms

_SETTINGS = ("PELLUCID_", "JAX_", "XLA_")


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, devices, and settings from the environment, for the report of a problem.

    With `return_string`, give the text instead.

    >>> print_environment_info(return_string=True).splitlines()[0].split(":")[0]
    'pellucid'
    """
    devices = platforms.devices()
    facts = {
        "pellucid": __version__,
        "jaxlib": jaxlib_version,
        "numpy": np.__version__,
        "python": sys.version.replace("\n", " "),
        "devices": f"{len(devices)} of kind {devices[0].device_kind} ({platforms.default_backend()}), "
        f"{platforms.local_device_count()} of them in this process",
        "processes": platforms.process_count(),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    lines = [f"{name + ':':<11}{value}" for name, value in facts.items()]
    lines += [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_SETTINGS)]
    text = "\n".join(lines)
    if return_string:
        return text
    sys.stdout.write(text + "\n")
    return None
