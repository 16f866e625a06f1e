"""Separable resampling of images: along each axis a product with a matrix of filter weights.

Source of the filters: Keys, Cubic convolution interpolation for digital image processing (1981); Duchon, Lanczos
filtering in one and two dimensions (1979).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    Ints,
    ShapeError,
    dtypes,
    is_static,
    public_functions,
)
from pellucid._machine.primitives.precision import Precision, canonical_precision
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.creation import canonical_shape
from pellucid.numpy.manipulation import canonical_axes
from pellucid.numpy.promotion import aval_of, promote_dtypes_inexact

_MIN_TOTAL_WEIGHT = 1000 * float(np.finfo(np.float32).eps)
"""Samples whose weights have no greater absolute sum lie outside of the image: they are 0."""


class ResizeMethod(enum.Enum):
    """A method of interpolation between the elements of an image.

    NEAREST takes the nearest element. LINEAR, CUBIC (Keys, a = -0.5), LANCZOS3 and LANCZOS5 weigh elements by a kernel
    of radius 1, 2, 3 and 5. CUBIC_PYTORCH gives what PyTorch's "bicubic" gives: with antialiasing CUBIC, without it the
    kernel with a = -0.75, and the elements at the borders repeated. AREA takes the mean over the area that a sample
    covers.

    >>> ResizeMethod.from_string("bilinear")
    <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of this name. Raises: ArgumentValueError for an unknown one.

        >>> ResizeMethod.from_string("bilinear")
        <ResizeMethod.LINEAR: 1>
        """
        if s not in _METHODS:
            raise ArgumentValueError(
                f"image: the resize method must be one of {', '.join(_METHODS)}.", got=f"got {s!r}"
            )
        return _METHODS[s]


_METHODS = {
    "nearest": ResizeMethod.NEAREST, "linear": ResizeMethod.LINEAR, "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR, "triangle": ResizeMethod.LINEAR, "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5, "cubic": ResizeMethod.CUBIC, "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC, "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH, "area": ResizeMethod.AREA,
}  # fmt: skip


# Kernels: weight of an element at distance x ≥ 0 from the sample ------------------------------------


def _linear(x: Array) -> Array:
    return jnp.maximum(1 - x, 0)


def _cubic(a: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        inner = ((a + 2) * x - (a + 3)) * x * x + 1
        outer = a * (((x - 5) * x + 8) * x - 4)
        return jnp.where(x < 1, inner, jnp.where(x < 2, outer, 0))

    return kernel


def _lanczos(radius: int) -> Callable[[Any], Any]:
    return lambda x: jnp.where(x <= radius, jnp.sinc(x) * jnp.sinc(x / radius), 0)


_KERNELS = {
    ResizeMethod.LINEAR: _linear, ResizeMethod.LANCZOS3: _lanczos(3), ResizeMethod.LANCZOS5: _lanczos(5),
    ResizeMethod.CUBIC: _cubic(-0.5), ResizeMethod.CUBIC_PYTORCH: _cubic(-0.5),
}  # fmt: skip


# Weights ------------------------------------------------------------------------------------------


def _sample_weights(
    size: int, samples: int, scale: Array, translation: Array, method: ResizeMethod, antialias: bool
) -> Array:
    """Weights [size, samples] of each element in each sample; they sum up to 1, or to 0 outside of the image."""
    dtype = dtypes.result_type(scale, translation)
    elements = jnp.arange(size, dtype=dtype)[:, None]
    step = 1 / scale  # between samples, in elements
    edges = (jnp.arange(samples + 1, dtype=dtype) - translation) * step
    centers = (jnp.arange(samples, dtype=dtype) + 0.5 - translation) * step - 0.5
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        return _repeating_borders(elements, centers, size)
    if method is ResizeMethod.AREA:
        low, high = jnp.minimum(edges[:-1], edges[1:]), jnp.maximum(edges[:-1], edges[1:])
        overlap = jnp.minimum(elements + 1, high) - jnp.maximum(elements, low)
        weights = jnp.maximum(overlap, 0)
    else:
        width = jnp.maximum(jnp.abs(step), 1) if antialias else 1
        weights = _KERNELS[method](jnp.abs(centers - elements) / width)
    total = jnp.sum(weights, axis=0)
    is_seen = jnp.abs(total) > _MIN_TOTAL_WEIGHT
    is_seen &= (centers >= -0.5) & (centers <= size - 0.5)
    return jnp.where(is_seen, weights / jnp.where(is_seen, total, 1), 0)


def _repeating_borders(elements: Array, centers: Array, size: int) -> Array:
    """Weights [size, samples] of PyTorch's cubic kernel in an image whose outermost elements repeat beyond its
    borders.
    """
    taps = jnp.floor(centers) + jnp.arange(-1, 3)[:, None]
    weights = _cubic(-0.75)(jnp.abs(centers - taps))
    is_tap = elements[:, None] == jnp.clip(taps, 0, size - 1)
    return jnp.sum(jnp.where(is_tap, weights, 0), axis=1)


@numpy_function(static=("axes", "sizes", "method", "antialias", "precision"))
def _resample(
    image: Any,
    scale: Any,
    translation: Any,
    axes: tuple[int, ...],
    sizes: tuple[int, ...],
    method: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Array:
    scale, translation = promote_dtypes_inexact("scale_and_translate", scale, translation)
    [image] = promote_dtypes_inexact("scale_and_translate", image)
    for i, (axis, samples) in enumerate(zip(axes, sizes, strict=True)):
        size = type_of(image).shape[axis]
        weights = _sample_weights(size, samples, scale[i], translation[i], method, antialias)
        weights = weights.astype(type_of(image).dtype)
        image = jnp.moveaxis(
            jnp.tensordot(image, weights, (axis, 0), precision=precision), -1, axis
        )
    return image


@numpy_function(static=("axes", "sizes"))
def _nearest(image: Any, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    for axis, samples in zip(axes, sizes, strict=True):
        size = type_of(image).shape[axis]
        lib = np if is_static((size, samples)) else jnp
        centers = (lib.arange(samples, dtype=np.float32) + 0.5) * size / samples
        image = jnp.take(image, lib.floor(centers).astype(np.int32), axis=axis, mode="clip")
    return image


def _method_of(method: Any) -> ResizeMethod:
    if isinstance(method, ResizeMethod):
        return method
    if not isinstance(method, str):
        raise ArgumentTypeError(
            "image: the resize method must be a string or a ResizeMethod.", got=f"got {method!r}"
        )
    return ResizeMethod.from_string(method)


def _sizes(name: str, image: Any, shape: Any) -> tuple[Any, tuple[int, ...]]:
    """(type of the image, `shape` as a tuple); raises ShapeError unless it has a size for each axis of the image."""
    aval = aval_of(f"image.{name}", image)
    sizes = canonical_shape(shape, f"image.{name}")
    if len(sizes) != aval.ndim:
        raise ShapeError(
            f"image.{name} needs a size for each axis of the image.",
            got=[f"image: {aval.text()}", f"shape: {sizes}"],
        )
    return aval, sizes


def scale_and_translate(
    image: ArrayLike,
    shape: Ints,
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Array:
    """`image` scaled, then translated, along the axes `spatial_dims`, cut to `shape`; 0 outside of the image.

    Sample x along axis `spatial_dims[i]` is at `(x + 0.5 - translation[i]) / scale[i] - 0.5` in the image. `scale` and
    `translation`, one number for each of the K axes [K], may be traced and are differentiated; negative scales flip.
    Sizes of other axes are kept. The result is floating, or complex. `antialias` widens the kernel where the image is
    scaled down. Raises: ShapeError for sizes that don't fit, ArgumentValueError for the method "nearest".

    >>> scale_and_translate(jnp.arange(4.0), (4,), (0,), jnp.ones(1), jnp.array([1.5]), "linear")
    Array([0. , 0. , 0.5, 1.5], dtype=float32)
    """
    method = _method_of(method)
    if method is ResizeMethod.NEAREST:
        raise ArgumentValueError(
            'image.scale_and_translate has no method "nearest".', do="Use `image.resize`."
        )
    aval, sizes = _sizes("scale_and_translate", image, shape)
    axes = canonical_axes(tuple(spatial_dims), aval.ndim)
    for name, each in (("scale", scale), ("translation", translation)):
        if aval_of("image.scale_and_translate", each).shape != (len(axes),):
            raise ShapeError(
                f"image.scale_and_translate needs one element of `{name}` for each of {len(axes)} axes.",
                got=type_of(each).text(),
            )
    return _resample(
        image, scale, translation, axes, tuple(sizes[axis] for axis in axes), method, bool(antialias),
        canonical_precision(precision, "image.scale_and_translate"),
    )  # fmt: skip


def resize(
    image: ArrayLike,
    shape: Ints,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Array:
    """`image` resized to `shape`: along axes whose size changes, the samples are spread evenly over the image.

    `method` is a name or member of `ResizeMethod`. The result is floating, or complex; "nearest" keeps the dtype.
    `antialias` widens the kernel along axes that shrink.
    Raises: ShapeError for a shape of another length, and for elements computed of none.

    >>> resize(jnp.arange(4.0), (2,), "linear", antialias=False)
    Array([0.5, 2.5], dtype=float32)
    """
    _, sizes = _sizes("resize", image, shape)
    return _resize(
        image, sizes, _method_of(method), bool(antialias), canonical_precision(precision, "image.resize")
    )  # fmt: skip


@numpy_function(static=("sizes", "method", "antialias", "precision"))
def _resize(
    image: ArrayLike, sizes: tuple[int, ...], method: ResizeMethod, antialias: bool, precision: Any
) -> Array:
    aval = type_of(image)
    axes = tuple(i for i in range(aval.ndim) if sizes[i] != aval.shape[i])
    if any(aval.shape[i] == 0 for i in axes):
        raise ShapeError(
            "image.resize can't compute elements of none.",
            got=[f"image: {aval.text()}", f"shape: {sizes}"],
        )
    new_sizes = tuple(sizes[i] for i in axes)
    if method is ResizeMethod.NEAREST:
        return _nearest(image, axes, new_sizes)
    dtype = dtypes.default_float_dtype()
    if is_static((*sizes, *aval.shape)):
        scale = np.array([sizes[i] / aval.shape[i] or 1.0 for i in axes], dtype)
    else:
        scale = jnp.stack([jnp.asarray(sizes[i] / aval.shape[i], dtype) for i in axes])
    return _resample(
        image, scale, np.zeros(len(axes), dtype), axes, new_sizes, method, antialias, precision
    )


__all__ = ["ResizeMethod", "resize", "scale_and_translate"]

public_functions(__all__, globals())
