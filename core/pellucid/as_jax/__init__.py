"""`import jax` answered by pellucid, for libraries that are written for the reference.

`install()` in a program, `python -m pellucid.as_jax script.py`, `%pellucid as_jax` in a notebook, or
`PELLUCID_AS_JAX=1` for kernels: from then on `jax`, `jax.numpy`, … are pellucid's modules and say so, and the private names that
libraries import are served by the table `private_names`. What is neither is missing, as it would be of an older release.
"""

from pellucid.as_jax.finder import install, missing

__all__ = ["install", "missing"]
