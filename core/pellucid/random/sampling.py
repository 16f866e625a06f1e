"""Checks of the keys, shapes and dtypes that samplers take, and the decorator that compiles them for eager calls."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    Ints,
    ShapeError,
    config,
    dtypes,
    library_code,
)
from pellucid._machine.compilation import key_reuse
from pellucid._machine.primitives.conversion import convert_element_type
from pellucid._machine.primitives.creation import checked_shape
from pellucid._machine.primitives.families import kind_of
from pellucid._machine.primitives.movement import broadcast_in_dim, broadcast_shapes, broadcast_to
from pellucid._machine.primitives.reshard import with_out_sharding
from pellucid._machine.runtime.extended import of_words
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import Tracer, as_operand, bind1, context, is_array_like, type_of
from pellucid._machine.xla.arrays import Array, ArrayImpl, ExtendedArray
from pellucid.numpy.compiled import numpy_function

from .generators import PRNGImpl, generator_of
from .key_primitives import RandomSeedParams, random_wrap_p

Shape = tuple[int, ...]
_WORD = np.dtype(np.uint32)


# Keys -----------------------------------------------------------------------------------------------


def default_generator() -> PRNGImpl:
    """The generator that the option `default_prng_impl` names."""
    return generator_of(config.default_prng_impl.value)


def wrap_words(words: ArrayLike, generator: PRNGImpl) -> Array:
    """Typed keys with the words `words`."""
    if type(words) is ArrayImpl and context.trace.is_eager and _are_words(words.aval, generator):
        return of_words(generator.dtype, words)
    return bind1(random_wrap_p, words, params=RandomSeedParams(generator))


def _are_words(aval: Any, generator: PRNGImpl) -> bool:
    n = len(generator.key_shape)
    return (
        aval.dtype == _WORD
        and aval.ndim >= n
        and aval.shape[aval.ndim - n :] == generator.key_shape
    )


def typed_keys(caller: str, keys: Array) -> Any:
    """`keys` as typed ones: those that are given as words, in an array of uint32, are the default generator's.

    Raises: ArgumentTypeError for anything else.
    """
    keys = as_operand(keys)
    if type(keys) is ExtendedArray:
        return keys
    if not isinstance(keys, (ArrayImpl, Tracer, np.ndarray)):
        raise ArgumentTypeError(
            f"{caller} needs a random key.",
            got=f"key: {type(keys).__name__}",
            do="Make one with `random.key(seed)`.",
        )
    aval = type_of(keys)
    if kind_of(aval.dtype) == "key":
        return keys
    generator = default_generator()
    if not _are_words(aval, generator):
        size = ", ".join(map(str, generator.key_shape))
        raise ArgumentTypeError(
            f"{caller} needs a random key: a typed one, or its words, uint32[{size}].",
            got=f"key: {aval.text()}",
            do="Make one with `random.key(seed)`.",
        )
    _check_legacy_words(caller, aval)
    return wrap_words(keys, generator)


def _check_legacy_words(caller: str, aval: Any) -> None:
    """Warns about keys passed as words, or raises ArgumentTypeError, as the option `legacy_prng_key` demands."""
    level = config.legacy_prng_key.value
    if level == "allow":
        return
    text = f"{caller} got the words of a key, where typed keys are expected."
    do = "Make the key with `random.key`, or wrap its words with `random.wrap_key_data`."
    if level == "error":
        raise ArgumentTypeError(text, got=f"key: {aval.text()}", do=do)
    warnings.warn(f"{text} {do}", FutureWarning, stacklevel=5)


def single_key(caller: str, key: Array) -> Any:
    """`key` as a typed key; raises ShapeError unless it is a single one."""
    typed = typed_keys(caller, key)
    if typed.shape != ():
        raise ShapeError(
            f"{caller} needs a single key.",
            got=f"key: {type_of(typed).text()}",
            do="Use `vmap` for an array of keys.",
        )
    return typed


# Shapes and dtypes ----------------------------------------------------------------------------------


def shape_of_result(caller: str, shape: int | Ints | None, *parameters: Any) -> Shape:
    """The requested shape, a sequence of sizes or one size; if it is None, that of the `parameters` together.

    Raises: ShapeError for sizes that are none, and unless the parameters broadcast to it.
    """
    shapes = [np.shape(p) if not hasattr(p, "aval") else p.aval.shape for p in parameters]
    if shape is None and parameters:
        return _together(caller, shapes, parameters)
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    sizes = checked_shape(shape, caller)  # pyright: ignore[reportArgumentType]
    if shapes and _together(caller, [sizes, *shapes], parameters) != sizes:
        raise ShapeError(
            f"{caller}: its parameters must broadcast to the shape asked for.",
            got=[f"shape: {sizes}", *[f"a parameter of shape {s}" for s in shapes if s]],
        )
    return sizes


def _together(caller: str, shapes: Sequence[Shape], parameters: Sequence[Any]) -> Shape:
    try:
        return broadcast_shapes(*shapes)
    except ShapeError:
        raise ShapeError(
            f"{caller}: shapes can't be broadcast together.",
            got=", ".join(map(str, shapes)),
            do="A dimension fits another one of equal size, or of size 1.",
        ) from None


def checked_dtype(caller: str, dtype: DTypeLike | None, kinds: frozenset[str], default: Any) -> Any:
    """The canonical dtype for `dtype`, or for None that of `default`.

    Raises: ArgumentValueError unless its kind is one of `kinds`.
    """
    if dtype is None:
        dtype = default
    chosen = dtypes.check_user_dtype(dtype, caller)
    if kind_of(chosen) not in kinds:
        raise ArgumentValueError(
            f"{caller} can't return this dtype.",
            got=f"dtype: {chosen}",
            do=f"Ask for a dtype of these kinds: {', '.join(sorted(kinds))}.",
        )
    return chosen


def parameter(
    caller: str, name: str, x: ArrayLike, dtype: np.dtype, shape: Shape | None = None
) -> Any:
    """The parameter `x` of a distribution as `dtype`, broadcast to `shape` if that is given."""
    x = convert_element_type(x, dtype)
    return x if shape is None else broadcast_to(x, shape)


def check_parameters(caller: str, **parameters: Any) -> list[Any]:
    """`parameters` as operands.

    Raises ArgumentTypeError for anything that isn't an array or number, DtypeError for complex numbers and random keys.
    """
    operands = []
    for name, x in parameters.items():
        operand = as_operand(x)
        if not is_array_like(operand):
            raise ArgumentTypeError(
                f"{caller} needs arrays or numbers.",
                got=f"{name}: {type(x).__name__}",
                do="Convert with `jnp.asarray` first.",
            )
        aval = type_of(operand)
        if kind_of(aval.dtype) in ("complex", "key"):
            raise DtypeError(f"{caller} needs real parameters.", got=f"{name}: {aval.text()}")
        operands.append(operand)
    return operands


def to_rank(x: ArrayLike, ndim: int) -> Any:
    """`x` with leading axes of size 1, so that it has `ndim` of them."""
    aval = type_of(x)
    if aval.ndim == ndim:
        return x
    shape = (1,) * (ndim - aval.ndim) + aval.shape
    return broadcast_in_dim(x, shape, range(ndim - aval.ndim, ndim))


# Samplers -------------------------------------------------------------------------------------------


def sampler(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that compiles a function of a typed key for eager calls: one C++ call on the key's words.

    `static` names its arguments that aren't arrays. Under a trace its primitives are traced.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = library_code(function)
        key, *others = inspect.signature(function).parameters.values()
        generator = key.replace(name="generator")

        def on_words(words: Any, generator: PRNGImpl, *arguments: Any) -> Any:
            return function(
                bind1(random_wrap_p, words, params=RandomSeedParams(generator)), *arguments
            )

        on_words.__name__ = function.__name__.removeprefix("_")
        setattr(on_words, "__signature__", inspect.Signature([key, generator, *others]))
        compiled = numpy_function(on_words, static=("generator", *static))

        @functools.wraps(function)
        def call(key: Any, *arguments: Any) -> Any:
            if type(key) is ExtendedArray and context.trace.is_eager:
                if key_reuse.is_checking():
                    key_reuse.note_use(on_words.__name__, key)
                return compiled(key.words, key.aval.dtype.implementation, *arguments)
            return function(key, *arguments)

        return call

    return decorate


def laid_out(
    out_sharding: Sharding | PartitionSpec | None,
    function: Callable[..., Any],
    key: Array,
    *arguments: Any,
) -> Any:
    """`function(key, *arguments)`, laid out over Explicit mesh axes as `out_sharding` says."""
    if out_sharding is None:
        return function(key, *arguments)
    return with_out_sharding(out_sharding, lambda k: function(k, *arguments), key)
