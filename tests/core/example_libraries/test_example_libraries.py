"""Layers and optimizers for examples: the reference's numbers, a training, and mistakes."""

import numpy as np
import pytest
from corpus import library_programs

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError
from pellucid.example_libraries import optimizers, stax


@pytest.mark.parametrize("program", library_programs.PROGRAMS)
def test_numbers_are_those_of_the_reference(oracle, program) -> None:
    oracle.check(program, library=pl)


@pytest.mark.parametrize("rule", ["adam", "sm3"])
def test_a_network_learns_two_moons(rule) -> None:
    t = np.linspace(0, np.pi, 40, dtype=np.float32)
    moon = np.stack([np.cos(t), np.sin(t)], 1)
    x, y = np.concatenate([moon, [1, 0.5] - moon]).astype(np.float32), np.repeat([0, 1], 40)
    init, apply = stax.serial(stax.Dense(16), stax.Tanh, stax.Dense(2), stax.LogSoftmax)
    _, params = init(pl.random.key(0), (-1, 2))
    opt = optimizers.sm3(0.2) if rule == "sm3" else optimizers.adam(0.05)

    def loss(params):
        return -jnp.mean(apply(params, x)[jnp.arange(80), y])

    @pl.jit
    def step(i, state):
        return opt.update_fn(i, pl.grad(loss)(opt.params_fn(state)), state)

    state = opt.init_fn(params)
    for i in range(200):
        state = step(i, state)
    assert loss(params) > 0.5
    assert loss(opt.params_fn(state)) < 0.05
    again = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    for a, b in zip(pl.tree.leaves(state), pl.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (
            lambda: optimizers.sgd(0.1).update_fn(0, {"b": 1.0}, optimizers.sgd(0.1).init_fn({"a": 1.0})),
            ArgumentTypeError, "gradients: ",
        ),
        (
            lambda: optimizers.optimizer(lambda: (lambda x: x, lambda i, g, s: (s, s), lambda s: s))().update_fn(
                0, 1.0, optimizers.sgd(0.1).init_fn(1.0)
            ),
            ArgumentTypeError, "keep the structure",
        ),
        (lambda: optimizers.sgd(np.ones(2)), ArgumentTypeError, "number or a function"),
        (lambda: optimizers.piecewise_constant([1], [1.0]), ArgumentValueError, "one value more"),
        (lambda: optimizers.pack_optimizer_state([1.0]), ArgumentTypeError, "JoinPoint"),
        (lambda: stax.Dropout(0.5)[1]((), np.ones(3)), ArgumentTypeError, "no key"),
        (lambda: stax.FanInSum[0](None, [(1, 2), (1, 3)]), ArgumentValueError, "one shape"),
        (lambda: stax.Conv(3, (2,)), ArgumentValueError, "one size of its filter"),
        (lambda: stax.MaxPool((2,)), ArgumentValueError, "one size of its window"),
    ],
)  # fmt: skip
def test_mistakes(mistake, error, message) -> None:
    with pytest.raises(error, match=message):
        mistake()
