"""Optimizers as triples of functions, and schedules of their step sizes.

`init_fn(params)` makes a state, `update_fn(step, gradients, state)` the next one, and `params_fn(state)` gives its
parameters. All three work under `jit`. A step size is a number, or a function of the step.

>>> init, update, get_params = sgd(0.5)
>>> state = init({"w": np.float32(1)})
>>> float(get_params(update(0, {"w": np.float32(4)}, state))["w"])
-1.0
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.typing import Function
from pellucid.tree_util import (
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
)

Step = int
Params: TypeAlias = Any
State: TypeAlias = Any
Updates: TypeAlias = Any
Schedule = Callable[[Any], Any]
InitFn = Callable[[Any], Any]
UpdateFn = Callable[[Any, Any, Any], Any]
ParamsFn = Callable[[Any], Any]
_Slots = tuple[Any, ...]


class OptimizerState(NamedTuple):
    """State of an optimizer: the leaves of each parameter's own state, flat, and their structures.

    >>> OptimizerState([1.0], tree_structure(0), (tree_structure(0),)).packed_state
    [1.0]
    """

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


def _from_leaves(trees: Any, leaves: Any) -> OptimizerState:
    return OptimizerState(leaves[0], *trees)


register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    _from_leaves,
)


class Optimizer(NamedTuple):
    """The three functions of an optimizer.

    >>> sgd(0.1).init_fn(1.0).packed_state
    ([1.0],)
    """

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def optimizer(
    opt_maker: Callable[..., tuple[Function, Function, Function]],
) -> Callable[..., Optimizer]:
    """Makes a function that returns optimizers of trees from one that returns those of single arrays.

    `opt_maker(...)` returns `(init(x), update(step, gradient, state), get_params(state))` for one array; its state may
    be any tree.

    Raises: ArgumentTypeError, in `update_fn`, for gradients of another structure than the parameters, and for a rule
    whose state changes its structure.

    >>> @optimizer
    ... def sign_descent(step_size):
    ...     return lambda x: x, lambda i, g, x: x - step_size * jnp.sign(g), lambda x: x
    >>> init, update, get_params = sign_descent(0.25)
    >>> float(get_params(update(0, 3.0, init(1.0))))
    0.75
    """

    @functools.wraps(opt_maker)
    def make_optimizer(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def init_tree(params: Params) -> OptimizerState:
            leaves, tree = tree_flatten(params)
            return _pack(tree, [init(x) for x in leaves])

        def update_tree(step: Any, gradients: Updates, state: OptimizerState) -> OptimizerState:
            grads, tree = tree_flatten(gradients)
            if tree != state.tree_def:
                raise ArgumentTypeError(
                    "the gradients of an optimizer must have the structure of its parameters.",
                    got=[f"gradients: {tree}", f"parameters: {state.tree_def}"],
                )
            updated = _pack(
                tree, [update(step, g, s) for g, s in strict_zip(grads, _unpack(state))]
            )
            if updated.subtree_defs != state.subtree_defs:
                raise ArgumentTypeError(
                    f"the update of optimizer `{opt_maker.__name__}` must keep the structure of its state.",
                    got=[f"before: {state.subtree_defs}", f"after: {updated.subtree_defs}"],
                )
            return updated

        def params_of_tree(state: OptimizerState) -> Params:
            return tree_unflatten(state.tree_def, [get_params(s) for s in _unpack(state)])

        return Optimizer(init_tree, update_tree, params_of_tree)

    return make_optimizer


def _pack(tree: Any, states: Sequence[Any]) -> OptimizerState:
    flat = [tree_flatten(s) for s in states]
    return OptimizerState(
        tuple([leaves for leaves, _ in flat]), tree, tuple([inner for _, inner in flat])
    )


def _unpack(state: OptimizerState) -> list[Any]:
    return [tree_unflatten(t, s) for t, s in strict_zip(state.subtree_defs, state.packed_state)]


def _with_slots(n_slots: int, step: Callable[..., _Slots]) -> tuple[Any, Any, Any]:
    """An optimizer of one array that keeps the array and `n_slots` arrays like it, which begin as zeros.

    `step(i, gradient, x, *slots)` returns the next (x, *slots).
    """

    def init(x: Any) -> _Slots:
        return (x, *[jnp.zeros_like(x) for _ in range(n_slots)])

    return init, lambda i, g, state: step(i, g, *state), lambda state: state[0]


@optimizer
def sgd(step_size: Any) -> Any:
    """Stochastic gradient descent: `x - step_size * g`.

    >>> init, update, get_params = sgd(0.5)
    >>> float(get_params(update(0, 4.0, init(1.0))))
    -1.0
    """
    size = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - size(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent along a velocity, which decays by `mass` in each step.

    >>> init, update, get_params = momentum(0.5, mass=0.9)
    >>> float(get_params(update(0, 4.0, init(1.0))))
    -1.0
    """
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, velocity: Any) -> _Slots:
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return _with_slots(1, step)


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Nesterov's accelerated gradient: momentum whose gradient is that of the point ahead.

    >>> init, update, get_params = nesterov(0.5, mass=0.5)
    >>> float(get_params(update(0, 4.0, init(1.0))))
    -2.0
    """
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, velocity: Any) -> _Slots:
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g), velocity

    return _with_slots(1, step)


def _inverse_root(squares: Any) -> Any:
    """1 / sqrt(squares), and 0 where that is infinite."""
    positive = squares > 0
    return jnp.where(positive, 1 / jnp.sqrt(jnp.where(positive, squares, 1)), 0)


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad (Duchi, Hazan, Singer 2011) with momentum: gradients are divided by the root of the sum of their squares.

    >>> init, update, get_params = adagrad(0.5, momentum=0)
    >>> float(get_params(update(0, 4.0, init(1.0))))
    0.5
    """
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, squares: Any, mean: Any) -> _Slots:
        squares = squares + jnp.square(g)
        mean = momentum * mean + (1 - momentum) * g * _inverse_root(squares)
        return x - size(i) * mean, squares, mean

    return _with_slots(2, step)


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp: gradients are divided by the root of a running mean of their squares.

    >>> init, update, get_params = rmsprop(0.5, gamma=0)
    >>> round(float(get_params(update(0, 4.0, init(1.0)))), 4)
    0.5
    """
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, squares: Any) -> _Slots:
        squares = gamma * squares + (1 - gamma) * jnp.square(g)
        return x - size(i) * g / jnp.sqrt(squares + eps), squares

    return _with_slots(1, step)


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """RMSProp with momentum.

    >>> init, update, get_params = rmsprop_momentum(0.5, gamma=0)
    >>> round(float(get_params(update(0, 4.0, init(1.0)))), 4)
    0.5
    """
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, squares: Any, velocity: Any) -> _Slots:
        squares = gamma * squares + (1 - gamma) * jnp.square(g)
        velocity = momentum * velocity + size(i) * g / jnp.sqrt(squares + eps)
        return x - velocity, squares, velocity

    return _with_slots(2, step)


def _without_bias(mean: Any, decay: float, i: Any) -> Any:
    """A running mean that began as 0, divided by the sum of its weights."""
    return mean / (1 - jnp.asarray(decay, mean.dtype) ** (i + 1))


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam (Kingma, Ba 2014): the running mean of gradients over the root of that of their squares.

    >>> init, update, get_params = adam(0.5)
    >>> round(float(get_params(update(0, 4.0, init(1.0)))), 4)
    0.5
    """
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, mean: Any, squares: Any) -> _Slots:
        mean = b1 * mean + (1 - b1) * g
        squares = b2 * squares + (1 - b2) * jnp.square(g)
        root = jnp.sqrt(_without_bias(squares, b2, i))
        return x - size(i) * _without_bias(mean, b1, i) / (root + eps), mean, squares

    return _with_slots(2, step)


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adamax (Kingma, Ba 2014): Adam with the decaying maximum of gradients in place of the root.

    >>> init, update, get_params = adamax(0.5)
    >>> round(float(get_params(update(0, 4.0, init(1.0)))), 4)
    0.5
    """
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, mean: Any, maximum: Any) -> _Slots:
        mean = b1 * mean + (1 - b1) * g
        maximum = jnp.maximum(b2 * maximum, jnp.abs(g))
        return x - size(i) * _without_bias(mean, b1, i) / (maximum + eps), mean, maximum

    return _with_slots(2, step)


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """SM3 (Anil, Gupta, Koren, Singer 2019): Adagrad whose sums of squares are kept by row and column only.

    The bound of an element's sum is the least of those of the slices it lies in, one for each axis; a slice's is the
    greatest of its elements'.

    >>> init, update, get_params = sm3(0.5, momentum=0)
    >>> get_params(update(0, np.array([4.0, 0.0]), init(np.array([1.0, 1.0])))).tolist()
    [0.5, 1.0]
    """
    size = make_schedule(step_size)

    def init(x: Any) -> _Slots:
        return (
            x,
            jnp.zeros_like(x),
            [jnp.zeros(n, jnp.result_type(x)) for n in jnp.shape(x) or (1,)],
        )

    def update(i: Any, g: Any, state: _Slots) -> _Slots:
        x, mean, bounds = state
        axes = range(len(bounds))
        others = [tuple([other for other in axes if other != axis]) for axis in axes]
        squares = jnp.square(jnp.atleast_1d(g)) + functools.reduce(
            jnp.minimum, [jnp.expand_dims(b, rest) for b, rest in strict_zip(bounds, others)]
        )
        scaled = g * jnp.reshape(_inverse_root(squares), jnp.shape(x))
        mean = momentum * mean + (1 - momentum) * scaled
        bounds = [jnp.max(squares, axis=rest) if rest else squares for rest in others]
        return x - size(i) * mean, mean, bounds

    return init, update, lambda state: state[0]


# Step sizes -------------------------------------------------------------------------------------------


def constant(step_size: Any) -> Schedule:
    """The schedule that is `step_size` in each step.

    >>> constant(0.5)(10)
    0.5
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """`step_size * decay_rate ** (step / decay_steps)`.

    >>> exponential_decay(8.0, 10, 0.5)(20)
    2.0
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """`step_size / (1 + decay_rate * step / decay_steps)`; `staircase` rounds the quotient down.

    >>> inverse_time_decay(8.0, 10, 1.0)(10), float(inverse_time_decay(8.0, 10, 1.0, staircase=True)(9))
    (4.0, 8.0)
    """
    if staircase:
        return lambda i: step_size / (1 + decay_rate * jnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0
) -> Schedule:
    """From `step_size` to `final_step_size`, which is reached after `decay_steps`, by a power of the steps left.

    >>> float(polynomial_decay(8.0, 10, 2.0)(5)), float(polynomial_decay(8.0, 10, 2.0)(50))
    (5.0, 2.0)
    """

    def schedule(i: Any) -> Any:
        left = (1 - jnp.minimum(i, decay_steps) / decay_steps) ** power
        return final_step_size + (step_size - final_step_size) * left

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """`values[k]` in steps above k of the `boundaries`.

    Raises: ArgumentValueError unless there is one value more than boundaries.

    >>> schedule = piecewise_constant([10, 20], [4.0, 2.0, 1.0])
    >>> [float(schedule(i)) for i in (10, 11, 30)]
    [4.0, 2.0, 1.0]
    """
    limits, sizes = jnp.array(boundaries), jnp.array(values)
    if limits.ndim != 1 or sizes.ndim != 1 or len(limits) + 1 != len(sizes):
        raise ArgumentValueError(
            "piecewise_constant needs one value more than boundaries, both in sequences.",
            got=f"boundaries of shape {limits.shape}, values of shape {sizes.shape}",
        )
    return lambda i: sizes[jnp.sum(i > limits)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule: itself, or the constant one of a number.

    Raises: ArgumentTypeError for anything else.

    >>> make_schedule(0.5)(3)
    0.5
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise ArgumentTypeError(
        "a step size must be a number or a function of the step.",
        got=f"{type(scalar_or_schedule).__name__} of shape {jnp.shape(scalar_or_schedule)}",
    )


# Gradients and states ---------------------------------------------------------------------------------


def l2_norm(tree: Any) -> Any:
    """The root of the sum of squares of all leaves.

    >>> float(l2_norm({"a": np.array([3.0]), "b": 4.0}))
    5.0
    """
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Gradients scaled so that their `l2_norm` is at most `max_norm`.

    >>> float(clip_grads(4.0, 2.0)), float(clip_grads(1.0, 2.0))
    (2.0, 1.0)
    """
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """Marks, in a tree of optimizer states, where a parameter's own state begins.

    >>> list(JoinPoint([1, 2]))
    [[1, 2]]
    """

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Iterator[Any]:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state as a tree with the structure of the parameters, whose leaves are `JoinPoint`s; to save it.

    >>> unpack_optimizer_state(momentum(0.1, 0.9).init_fn({"w": 1.0}))["w"].subtree
    (1.0, Array(0., dtype=float32, weak_type=True))
    """
    return tree_unflatten(opt_state.tree_def, [JoinPoint(s) for s in _unpack(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state that `unpack_optimizer_state` made a tree of.

    Raises: ArgumentTypeError for leaves that aren't marked.

    >>> optimizer = momentum(0.1, 0.9)
    >>> packed = pack_optimizer_state(unpack_optimizer_state(optimizer.init_fn({"w": 1.0})))
    >>> optimizer.params_fn(packed)
    {'w': 1.0}
    """
    points, tree = tree_flatten(marked_pytree)
    unmarked = [type(x).__name__ for x in points if not isinstance(x, JoinPoint)]
    if unmarked:
        raise ArgumentTypeError(
            "pack_optimizer_state needs a tree of JoinPoints.",
            got=f"a leaf of type {unmarked[0]}",
            do="Give what `unpack_optimizer_state` returned.",
        )
    return _pack(tree, [point.subtree for point in points])


__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads", "constant",
    "exponential_decay", "inverse_time_decay", "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer",
    "pack_optimizer_state", "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3",
    "unpack_optimizer_state",
]  # fmt: skip
