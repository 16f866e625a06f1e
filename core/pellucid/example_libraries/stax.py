"""Layers of neural networks as pairs of functions.

`init_fun(rng, input_shape)` gives (output shape, parameters) and `apply_fun(params, inputs, **kwargs)` the result;
layers that draw random numbers take `rng=`. A size of -1 in a shape is any size of batch.

>>> init_fun, apply_fun = serial(Dense(8), Relu, Dense(2), LogSoftmax)
>>> output_shape, params = init_fun(pl.random.key(0), (-1, 4))
>>> output_shape, apply_fun(params, np.ones((3, 4))).shape
((-1, 2), (3, 2))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pellucid.numpy as jnp
from pellucid import lax, nn, random
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.typing import Axes, Function, Shape
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.higher_order.stages import eval_shape
from pellucid.nn import log_softmax as logsoftmax
from pellucid.nn.initializers import glorot_normal as glorot, normal as randn, ones, zeros

Layer = tuple[Function, Function]
"""A pair (init_fun, apply_fun)."""
_GLOROT, _SMALL, _TINY = glorot(), randn(), randn(1e-6)
_IMAGES = ("NHWC", "HWIO", "NHWC")
_SEQUENCES = ("NHC", "HIO", "NHC")


def _shape_of(apply: Function, *inputs: Shape) -> Shape:
    """The shape of `apply` of arrays of these shapes, where a size of -1 is any size."""
    one = [ShapeDtypeStruct([1 if n == -1 else n for n in s], "float32") for s in inputs]
    shape = list(eval_shape(apply, *one).shape)
    for i, n in enumerate(inputs[0]):
        if n == -1:
            shape[i] = -1
    return tuple(shape)


def Dense(out_dim: int, W_init: Any = _GLOROT, b_init: Any = _SMALL) -> Layer:
    """A linear layer: `inputs @ W + b`.

    >>> init_fun, apply_fun = Dense(5)
    >>> init_fun(pl.random.key(0), (2, 3))[0]
    (2, 5)
    """

    def init(rng: Any, input_shape: Shape) -> Any:
        w_key, b_key = random.split(rng)
        params = W_init(w_key, (input_shape[-1], out_dim)), b_init(b_key, (out_dim,))
        return (*input_shape[:-1], out_dim), params

    return init, lambda params, inputs, **_: jnp.dot(inputs, params[0]) + params[1]


def _convolution(
    convolve: Function,
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Sequence[int],
    W_init: Any,
    b_init: Any,
) -> Layer:
    """A layer with a bias for each channel; `convolve(inputs, W)` is its linear part."""
    lhs, rhs, out = dimension_numbers
    if len(filter_shape) != len(rhs) - 2:
        raise ArgumentValueError(
            "a convolution needs one size of its filter for each spatial dimension.",
            got=f"filter_shape {tuple(filter_shape)} for {dimension_numbers}",
        )
    kernel_init = W_init or glorot(rhs.index("I"), rhs.index("O"))

    def init(rng: Any, input_shape: Shape) -> Any:
        sizes = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[lhs.index("C")]}
        kernel_shape = tuple(channels[d] if d in channels else next(sizes) for d in rhs)
        bias_shape = tuple(out_chan if d == "C" else 1 for d in out)
        w_key, b_key = random.split(rng)
        params = kernel_init(w_key, kernel_shape), b_init(b_key, bias_shape)
        return _shape_of(convolve, input_shape, kernel_shape), params

    return init, lambda params, inputs, **_: convolve(inputs, params[0]) + params[1]


def GeneralConv(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _TINY,
) -> Layer:
    """A convolution whose `dimension_numbers` name the dimensions of operand, kernel and result.

    >>> init_fun, _ = GeneralConv(("NCHW", "OIHW", "NCHW"), 6, (3, 3))
    >>> init_fun(pl.random.key(0), (-1, 3, 8, 8))[0]
    (-1, 6, 6, 6)
    """
    steps = tuple(strides or (1,) * len(filter_shape))

    def convolve(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x, kernel, steps, padding, dimension_numbers=dimension_numbers
        )

    return _convolution(convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


def GeneralConvTranspose(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _TINY,
) -> Layer:
    """The transpose of `GeneralConv`, which spreads its input by `strides`.

    >>> init_fun, _ = GeneralConvTranspose(("NHC", "HIO", "NHC"), 6, (3,), (2,))
    >>> init_fun(pl.random.key(0), (-1, 4, 3))[0]
    (-1, 9, 6)
    """
    steps = tuple(strides or (1,) * len(filter_shape))

    def convolve(x: Any, kernel: Any) -> Any:
        return lax.conv_transpose(x, kernel, steps, padding, dimension_numbers=dimension_numbers)

    return _convolution(convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


def Conv(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _TINY,
) -> Layer:
    """A convolution of images [batch, height, width, channel].

    >>> Conv(6, (3, 3), padding="SAME")[0](pl.random.key(0), (-1, 8, 8, 3))[0]
    (-1, 8, 8, 6)
    """
    return GeneralConv(_IMAGES, out_chan, filter_shape, strides, padding, W_init, b_init)


def ConvTranspose(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _TINY,
) -> Layer:
    """The transpose of a convolution of images [batch, height, width, channel].

    >>> ConvTranspose(6, (2, 2), (2, 2))[0](pl.random.key(0), (-1, 4, 4, 3))[0]
    (-1, 8, 8, 6)
    """
    return GeneralConvTranspose(_IMAGES, out_chan, filter_shape, strides, padding, W_init, b_init)


def Conv1DTranspose(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _TINY,
) -> Layer:
    """The transpose of a convolution of sequences [batch, length, channel].

    >>> Conv1DTranspose(6, (2,), (2,))[0](pl.random.key(0), (-1, 4, 3))[0]
    (-1, 8, 6)
    """
    return GeneralConvTranspose(
        _SEQUENCES, out_chan, filter_shape, strides, padding, W_init, b_init
    )


def BatchNorm(
    axis: int | Axes = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Standardization over `axis`, the batch at hand, times a learned `gamma` plus a learned `beta`.

    `center` and `scale` say which of the two there are.

    >>> _, params = BatchNorm(axis=0)[0](pl.random.key(0), (-1, 3))
    >>> [p.shape for p in params]
    [(3,), (3,)]
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Shape) -> Any:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        beta_key, gamma_key = random.split(rng)
        beta = beta_init(beta_key, shape) if center else ()
        gamma = gamma_init(gamma_key, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply(params: Any, x: Any, **_: Any) -> Any:
        beta, gamma = (jnp.expand_dims(p, axes) if len(p) else None for p in params)
        x = nn.standardize(x, axis=axes, epsilon=epsilon)
        x = x if gamma is None else x * gamma
        return x if beta is None else x + beta

    return init, apply


def elementwise(fun: Function, **fun_kwargs: Any) -> Layer:
    """A layer without parameters: `fun(inputs, **fun_kwargs)`.

    >>> elementwise(jnp.clip, max=2)[1]((), np.float32(3))
    Array(2., dtype=float32)
    """
    return lambda rng, input_shape: (input_shape, ()), lambda params, x, **_: fun(x, **fun_kwargs)


Tanh = elementwise(jnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(logsoftmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)
Identity: Layer = (lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **_: inputs)


def _pooling(
    reducer: Function,
    initial: float,
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: str,
    spec: str | None,
    finished: Callable[[Any, Function], Any] = lambda y, pool: y,
) -> Layer:
    """A layer that reduces windows of its spatial dimensions; `spec` names the dimensions, N and C are the others.

    `finished(y, pool)` turns the sums `y = pool(x)` into the result.
    """
    spec = spec or "NHWC"
    spatial = [i for i, d in enumerate(spec) if d not in "NC"]
    if len(spatial) != len(window_shape):
        raise ArgumentValueError(
            "a pooling layer needs one size of its window for each spatial dimension.",
            got=f"window_shape {tuple(window_shape)} for {spec!r}",
            do="Name the dimensions: spec='NHC' for sequences.",
        )

    def full(sizes: Sequence[int]) -> Axes:
        of_spatial = dict(strict_zip(spatial, sizes))
        return tuple(of_spatial.get(i, 1) for i in range(len(spec)))

    window, steps = full(window_shape), full(strides or (1,) * len(window_shape))

    def pool(x: Any) -> Any:
        return lax.reduce_window(x, initial, reducer, window, steps, padding)

    def apply(params: Any, inputs: Any, **_: Any) -> Any:
        return finished(pool(inputs), lambda: pool(jnp.ones(inputs.shape, inputs.dtype)))

    return lambda rng, input_shape: (_shape_of(pool, input_shape), ()), apply


def MaxPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    spec: str | None = None,
) -> Layer:
    """The maximum of each window. `spec` names the dimensions, NHWC by default.

    >>> MaxPool((2, 2), (2, 2))[0](None, (-1, 8, 8, 3))[0]
    (-1, 4, 4, 3)
    """
    return _pooling(lax.max, -jnp.inf, window_shape, strides, padding, spec)


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    spec: str | None = None,
) -> Layer:
    """The sum of each window. `spec` names the dimensions, NHWC by default.

    >>> float(SumPool((2, 2))[1]((), np.ones((1, 2, 2, 1), np.float32))[0, 0, 0, 0])
    4.0
    """
    return _pooling(lax.add, 0.0, window_shape, strides, padding, spec)


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    spec: str | None = None,
) -> Layer:
    """The mean of each window, of its elements within the input. `spec` names the dimensions, NHWC by default.

    >>> float(AvgPool((2, 2))[1]((), np.ones((1, 2, 2, 1), np.float32))[0, 0, 0, 0])
    1.0
    """
    return _pooling(
        lax.add, 0.0, window_shape, strides, padding, spec, lambda y, count: y / count()
    )


Flatten: Layer = (
    lambda rng, shape: ((shape[0], math.prod(shape[1:])), ()),
    lambda params, inputs, **_: jnp.reshape(inputs, (inputs.shape[0], -1)),
)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Keeps each element with probability `rate`, and divides it by that; the identity unless `mode` is "train".

    >>> y = Dropout(0.5)[1]((), np.ones(4, np.float32), rng=pl.random.key(0))
    >>> set(y.tolist()) <= {0.0, 2.0}
    True
    """

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        if mode != "train":
            return inputs
        rng = kwargs.get("rng")
        if rng is None:
            raise ArgumentTypeError(
                "Dropout draws random numbers, and got no key.",
                do="Call `apply_fun(params, inputs, rng=key)`, or build the layer with mode='test'.",
            )
        mask = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(mask, inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply


# Layers of several inputs or outputs ------------------------------------------------------------------


def FanOut(num: int) -> Layer:
    """Returns its input `num` times.

    >>> FanOut(2)[1]((), 5)
    [5, 5]
    """
    return lambda rng, shape: ([shape] * num, ()), lambda params, inputs, **_: [inputs] * num


def _init_of_sum(rng: Any, input_shape: Sequence[Shape]) -> Any:
    shapes = set(map(tuple, input_shape))
    if len(shapes) != 1:
        raise ArgumentValueError(
            "FanInSum needs inputs of one shape.", got=", ".join(map(str, input_shape)) or "none"
        )
    return input_shape[0], ()


FanInSum: Layer = (_init_of_sum, lambda params, inputs, **_: sum(inputs[1:], inputs[0]))


def FanInConcat(axis: int = -1) -> Layer:
    """Joins its inputs along `axis`.

    >>> FanInConcat()[0](None, [(-1, 2), (-1, 3)])[0]
    (-1, 5)
    """

    def init(rng: Any, input_shape: Sequence[Shape]) -> Any:
        shape = list(input_shape[0])
        shape[axis] = sum(s[axis] for s in input_shape)
        return tuple(shape), ()

    return init, lambda params, inputs, **_: jnp.concatenate(inputs, axis)


def serial(*layers: Layer) -> Layer:
    """Layers one after another; the parameters are a list with those of each.

    >>> serial(Dense(8), Tanh)[0](pl.random.key(0), (2, 3))[0]
    (2, 8)
    """

    def init(rng: Any, input_shape: Shape) -> Any:
        params = []
        for init_fun, _ in layers:
            rng, layer_rng = random.split(rng)
            input_shape, param = init_fun(layer_rng, input_shape)
            params.append(param)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rngs = _keys(kwargs.pop("rng", None), len(layers))
        for (_, apply_fun), param, rng in strict_zip(layers, params, rngs):
            inputs = apply_fun(param, inputs, rng=rng, **kwargs)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Layers side by side: each has one input of a sequence and one output in a list.

    >>> parallel(Dense(8), Identity)[0](pl.random.key(0), [(2, 3), (2, 3)])[0]
    ((2, 8), (2, 3))
    """

    def init(rng: Any, input_shape: Sequence[Shape]) -> Any:
        pairs = [
            init_fun(key, shape)
            for (init_fun, _), key, shape in strict_zip(
                layers, _keys(rng, len(layers)), input_shape
            )
        ]
        return tuple([shape for shape, _ in pairs]), tuple([params for _, params in pairs])

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rngs = _keys(kwargs.pop("rng", None), len(layers))
        return [
            apply_fun(p, x, rng=key, **kwargs)
            for (_, apply_fun), p, x, key in strict_zip(layers, params, inputs, rngs)
        ]

    return init, apply


def _keys(rng: Any, count: int) -> Any:
    return [None] * count if rng is None else random.split(rng, count)


def shape_dependent(make_layer: Callable[[Shape], Layer]) -> Layer:
    """The layer that `make_layer(input_shape)` makes.

    >>> shape_dependent(lambda shape: Dense(2 * shape[-1]))[0](pl.random.key(0), (2, 3))[0]
    (2, 6)
    """
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )


__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp",
    "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity",
    "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh",
    "elementwise", "parallel", "serial", "shape_dependent",
]  # fmt: skip
