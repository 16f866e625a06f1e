"""Jupyter kernel of pellucid, and an extension that prepares any other IPython shell.

The kernel "Pellucid" needs no setup. In plain IPython or a notebook with another Python kernel, `%load_ext
pellucid_kernel` gives the same shell.
"""

from pellucid_kernel.shell import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
