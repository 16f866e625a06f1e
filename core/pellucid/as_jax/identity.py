"""Names that modules, functions and classes report while `import jax` is answered: those of `jax`.

Libraries decide by it: `type(x).__module__.split(".")[0]` chooses the backend of opt_einsum, autoray and others. A public
module is called as the reference's, and so are the names that it shows; what is within pellucid alone is below `jax._src`.
"""

from __future__ import annotations

import functools
from types import FunctionType, ModuleType
from typing import Any

from pellucid._machine.xla.calls import PjitFunction

_BELOW = """
    ad_checkpoint api_util collect_profile core custom_batching custom_derivatives debug distributed dlpack dtypes errors
    example_libraries example_libraries.optimizers example_libraries.stax experimental
    experimental.array_serialization experimental.array_serialization.pytree_serialization_utils
    experimental.buffer_callback experimental.checkify experimental.colocated_python experimental.compilation_cache
    experimental.compilation_cache.compilation_cache experimental.compute_on experimental.control_deps
    experimental.custom_partitioning experimental.fused experimental.hijax experimental.jet experimental.key_reuse
    experimental.layout experimental.mesh_utils experimental.multihost_utils experimental.ode experimental.pjit
    experimental.profiler experimental.random experimental.rnn experimental.roofline experimental.scheduling_groups
    experimental.serialize_executable experimental.shard_alike experimental.shard_map experimental.source_mapper
    experimental.sparse experimental.sparse.linalg experimental.topologies experimental.transfer
    experimental.xla_metadata export extend extend.backend extend.core extend.core.primitives extend.ifrt_programs
    extend.linear_util extend.lowering extend.mlir extend.random extend.sharding extend.source_info_util extend.xla
    ffi flatten_util image interpreters interpreters.ad interpreters.batching interpreters.mlir
    interpreters.partial_eval interpreters.pxla interpreters.xla lax lax.linalg lib memory monitoring nn
    nn.initializers numpy numpy.fft numpy.linalg ops profiler random ref scipy scipy.cluster scipy.cluster.vq
    scipy.fft scipy.integrate scipy.interpolate scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse
    scipy.sparse.linalg scipy.spatial scipy.spatial.transform scipy.special scipy.stats scipy.stats.bernoulli
    scipy.stats.beta scipy.stats.betabinom scipy.stats.binom scipy.stats.cauchy scipy.stats.chi2 scipy.stats.dirichlet
    scipy.stats.expon scipy.stats.gamma scipy.stats.gennorm scipy.stats.geom scipy.stats.gumbel_l scipy.stats.gumbel_r
    scipy.stats.laplace scipy.stats.logistic scipy.stats.multinomial scipy.stats.multivariate_normal
    scipy.stats.nbinom scipy.stats.norm scipy.stats.pareto scipy.stats.poisson scipy.stats.t scipy.stats.truncnorm
    scipy.stats.uniform scipy.stats.vonmises scipy.stats.wrapcauchy sharding stages test_util tools tools.jax_to_ir
    tools.pgo_nsys_converter tree tree_util typing
"""
PUBLIC = frozenset(("", *_BELOW.split()))
"""Modules of the reference that users import, below `jax`."""

ADAPTERS = "pellucid.as_jax.modules"
"""The module that is `jax`; those below it are served below `jax`."""
BELOW_PUBLIC = "pellucid.as_jax.public"
"""Adapters below packages that are pellucid's own; its folders are no packages."""
MACHINE = "pellucid._machine"
"""The package of pellucid's private rooms, which are served below `jax._src`."""


@functools.cache
def as_jax(name: str) -> str:
    """The name under which `name`, a module of pellucid, is served."""
    for package in (ADAPTERS, BELOW_PUBLIC):
        if f"{name}.".startswith(f"{package}."):
            return f"jax{name.removeprefix(package)}"
    if not f"{name}.".startswith("pellucid."):
        return name
    below = name.removeprefix("pellucid").removeprefix(".")
    if below in PUBLIC:
        return f"jax.{below}".rstrip(".")
    return (
        f"jax._src.{name.removeprefix(MACHINE).removeprefix('pellucid').removeprefix('.')}".rstrip(
            "."
        )
    )


def is_public(name: str) -> bool:
    """Whether `name`, a module's, is public and below `jax`.

    >>> is_public("jax.numpy"), is_public("jax._src.core"), is_public("pellucid.numpy")
    (True, False, False)
    """
    return f"{name}.".startswith("jax.") and not f"{name}.".startswith("jax._src.")


def relabel(module: ModuleType, public: str | None = None) -> None:
    """Makes the functions and classes in `module` report modules of `jax`: `public`, if that is given, for those that
    it shows.
    """
    names = vars(module)
    listed = set(names.get("__all__", names)) if public is not None else ()
    for name, value in list(names.items()):
        is_shown = name in listed and name == getattr(value, "__qualname__", None)
        show_as(value, public if is_shown else None)


def show_as(value: Any, public: str | None) -> None:
    """Makes a function or class of pellucid report a module of `jax`: `public`, if no module shows it yet."""
    if not isinstance(value, (FunctionType, type, PjitFunction)):
        return
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or not module.startswith(("pellucid", "jax.")):
        return
    shown = as_jax(module)
    if public is not None and not is_public(shown):
        shown = public
    if shown != module:
        value.__module__ = shown
        if isinstance(value, type):
            show_members(value)


def show_members(owner: type) -> None:
    """Makes the functions of pellucid that a class has report modules of `jax`."""
    for member in vars(owner).values():
        if isinstance(member, property):
            show_as(member.fget, None)
            show_as(member.fset, None)
        elif isinstance(member, (FunctionType, staticmethod, classmethod)):
            show_as(getattr(member, "__func__", member), None)
