"""Pickles shared with the reference: resolves names in its pickles, and writes names that it can resolve.

The reference pickles most of its classes without a call, so that what is here is made empty, and then given their fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pellucid._machine.base import UnsupportedError
from pellucid._machine.base.dtypes import KeyDType
from pellucid._machine.higher_order.remat_policies import checkpoint_policies
from pellucid._machine.runtime.extended import of_words
from pellucid._machine.runtime.host import _from_pickle as array_of_pickle
from pellucid._machine.sharding import NamedSharding
from pellucid._machine.xla import ExtendedArray, pytree
from pellucid.random.generators import PRNGImpl, generator_of


class KeyTy(KeyDType):
    """The dtype of random keys, of pickles of the reference."""

    __slots__ = ()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        dtype = _register_generator(state["_impl"]).dtype
        for name in KeyDType.__slots__:
            object.__setattr__(self, name, getattr(dtype, name))
        object.__setattr__(self, "__class__", KeyDType)


class PRNGKeyArray(ExtendedArray):
    """Random keys, of pickles of the reference."""

    __slots__ = ()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        keys = of_words(_register_generator(state["_impl"]).dtype, state["_base_array"])
        self.__class__ = ExtendedArray
        self.__init__(keys.aval, keys.words)


def _register_generator(generator: PRNGImpl) -> PRNGImpl:
    """The generator that is called and works as `generator`, which is then one object with it."""
    try:
        known = generator_of(generator.name)
    except ValueError:
        return generator
    return known if known == generator else generator


_GENERATORS = "threefry2x32|threefry4x32|philox2x32|philox4x32|unsafe_rbg|rbg|threefry"
_FUNCTION = re.compile(rf"_?({_GENERATORS})_(seed|split|random_bits|fold_in)")


def function_of_generator(name: str) -> Any:
    """The function of a generator that the reference calls `name`; None for another name.

    >>> function_of_generator("_rbg_seed") is generator_of("rbg").seed, function_of_generator("nothing")
    (True, None)
    """
    found = _FUNCTION.fullmatch(name)
    if found is None:
        return None
    generator, function = found.groups()
    return getattr(generator_of("threefry2x32" if generator == "threefry" else generator), function)


def named_sharding(
    mesh: Any, spec: Any, memory_kind: str | None, logical_device_ids: Any = None
) -> NamedSharding:
    """The sharding that was pickled.

    Raises: UnsupportedError for one with devices in another order than its mesh has them.
    """
    if logical_device_ids is not None:
        raise UnsupportedError(
            "a pickled NamedSharding numbers its devices in another order than its mesh.",
            got=f"logical device ids {logical_device_ids}",
            do="Make the mesh of the devices in that order.",
        )
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


class DotsSaveable:
    """The policy of `checkpoint` that keeps products of matrices."""

    only_if_no_batch_dims = False

    def __call__(self, primitive: Any, *avals: Any, **params: Any) -> Any:
        """Whether the results of an equation are kept."""
        policies = checkpoint_policies
        if self.only_if_no_batch_dims:
            return policies.dots_with_no_batch_dims_saveable(primitive, *avals, **params)
        return policies.dots_saveable(primitive, *avals, **params)


_WRITTEN_AS = {
    "array._reconstruct_array": array_of_pickle,
    "tree_util.default_registry": pytree.default_registry,
}
"""Objects that are pickled by the names that they have in the reference, below `jax._src`."""


def use_names_of_reference() -> None:
    """Makes pickles that are written from now on refer to the reference's names."""
    for full, value in _WRITTEN_AS.items():
        module, _, name = full.rpartition(".")
        value.__module__, value.__name__ = f"jax._src.{module}", name
        if callable(value):
            value.__qualname__ = name
