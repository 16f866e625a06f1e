"""The Jupyter kernel of pellucid, and its extension for any other IPython.

Under the kernel "Pellucid" nothing needs to be loaded. In a plain IPython session or a notebook with
another Python kernel, `%load_ext pellucid_kernel` gives the same shell.
"""

from pellucid_kernel.shell import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
