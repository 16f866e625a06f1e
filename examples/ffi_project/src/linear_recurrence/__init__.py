"""A linear recurrence along the last axis, computed by C++ within programs: jitted, batched, differentiated, sharded."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import partial

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import ffi

__all__ = ["linear_recurrence"]

TARGET = "linear_recurrence"


def _register() -> None:
    """Load the library that lies beside this file, and make its handler known to XLA."""
    spec = importlib.util.find_spec("linear_recurrence.native")
    if spec is None or spec.origin is None:
        raise ImportError("linear_recurrence's library isn't built: pip install .")
    library = ctypes.CDLL(spec.origin)
    ffi.register_ffi_target(TARGET, ffi.pycapsule(library.RecurrenceHandler), platform="cpu")
    # Rows are independent of each other: each device may compute those that it has.
    ffi.register_ffi_target_as_batch_partitionable(TARGET)


_register()


def linear_recurrence(decay: pl.Array, x: pl.Array, *, reverse: bool = False) -> pl.Array:
    """y with y[..., t] = decay[..., t] * y[..., t-1] + x[..., t], and y[..., -1] taken as 0.

    The two are broadcast to one shape, and computed in float32 or, if one of them is, float64. With `reverse` the
    neighbour is y[..., t+1].

    >>> linear_recurrence(0.5, jnp.array([8.0, 0.0, 0.0, 1.0])).tolist()
    [8.0, 4.0, 2.0, 2.0]
    """
    dtype = jnp.promote_types(jnp.result_type(decay, x), jnp.float32)
    if dtype not in (jnp.float32, jnp.float64):
        raise TypeError(f"linear_recurrence takes real numbers, not {dtype}")
    decay, x = jnp.broadcast_arrays(jnp.asarray(decay, dtype), jnp.asarray(x, dtype))
    if x.ndim == 0:
        raise ValueError("linear_recurrence needs an axis to go along, and got scalars")
    return _recurrence(decay, x, reverse)


@partial(pl.custom_vjp, nondiff_argnums=(2,))
def _recurrence(decay, x, reverse):
    """The native call. Leading axes that `vmap` adds are rows like the others: "broadcast_all"."""
    result = pl.ShapeDtypeStruct(x.shape, x.dtype)
    return ffi.ffi_call(TARGET, result, vmap_method="broadcast_all")(decay, x, reverse=reverse)


def _forward(decay, x, reverse):
    y = _recurrence(decay, x, reverse)
    return y, (decay, y)


def _backward(reverse, saved, cotangent):
    """Cotangents of both operands; they are recurrences themselves, so that second derivatives exist.

    y[t] acts on y[t+1] by decay[t+1], hence dx[t] = cotangent[t] + decay[t+1] * dx[t+1].
    """
    decay, y = saved
    dx = _recurrence(_shifted(decay, not reverse), cotangent, not reverse)
    return dx * _shifted(y, reverse), dx


_recurrence.defvjp(_forward, _backward)


def _shifted(x, to_the_left):
    """`x` moved by one place along its last axis, with 0 where nothing comes."""
    gap = jnp.zeros_like(x[..., :1])
    parts = (x[..., 1:], gap) if to_the_left else (gap, x[..., :-1])
    return jnp.concatenate(parts, axis=-1)
