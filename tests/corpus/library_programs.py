"""Programs with the reference's libraries for examples; each takes the array library first. `PROGRAMS` lists them."""

import importlib

import numpy as np

from corpus.transform_programs import submodule

PARAMS = {
    "w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
    "b": np.float32(0.5),
    "c": np.array([1, -2], np.float32),
}
IMAGES = np.linspace(-1, 2, 2 * 8 * 8 * 3, dtype=np.float32).reshape(2, 8, 8, 3)
ROWS = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)


def _library(jax, name):
    return importlib.import_module(f"{jax.__name__}.example_libraries.{name}")


def _descended(jax, optimizer):
    init, update, get_params = optimizer
    tree_map = submodule(jax, "tree_util").tree_map

    def step(i, state):
        gradients = tree_map(lambda p: p * p - 0.5 * p + 0.1 * (i + 1), get_params(state))
        return update(i, gradients, state)

    state = init(PARAMS)
    trace = []
    for i in range(4):
        state = step(i, state)
        trace.append(get_params(state))
    return trace


def descents(jax):
    lib = _library(jax, "optimizers")
    return [
        _descended(jax, optimizer)
        for optimizer in (
            lib.sgd(0.1), lib.momentum(0.1, 0.9), lib.nesterov(0.1, 0.9), lib.adagrad(0.1), lib.adagrad(0.1, 0.5),
            lib.rmsprop(0.1), lib.rmsprop_momentum(0.1, momentum=0.5), lib.adam(0.1), lib.adamax(0.1, 0.8),
            lib.sm3(0.1), lib.sgd(lib.polynomial_decay(0.3, 3, 0.1, 2)),
        )
    ]  # fmt: skip


def schedules(jax):
    lib = _library(jax, "optimizers")
    functions = (
        lib.constant(0.5), lib.exponential_decay(0.5, 3, 0.9), lib.inverse_time_decay(0.5, 3, 0.9),
        lib.inverse_time_decay(0.5, 3, 0.9, staircase=True), lib.polynomial_decay(0.5, 3, 0.1),
        lib.polynomial_decay(0.5, 3, 0.1, 2.0), lib.piecewise_constant([1, 3], [0.1, 0.2, 0.3]), lib.make_schedule(2),
    )  # fmt: skip
    return [[np.float32(f(i)) for i in range(6)] for f in functions]


def clipped(jax):
    lib = _library(jax, "optimizers")
    return lib.l2_norm(PARAMS), lib.clip_grads(PARAMS, 1.0), lib.clip_grads(PARAMS, 100.0)


def _layer(jax, layer, x, input_shape=None):
    init, apply = layer
    shape, params = init(jax.random.key(0), input_shape or x.shape)
    results = params, apply(params, x, rng=jax.random.key(1))
    sizes = np.array(jax.tree_util.tree_leaves(shape), np.int32)
    return sizes, jax.tree_util.tree_map(jax.numpy.asarray, results)


def layers(jax):
    stax = _library(jax, "stax")
    of_images = (
        stax.Conv(5, (3, 3)), stax.Conv(5, (3, 2), (2, 1), "SAME"), stax.ConvTranspose(5, (3, 3), (2, 2)),
        stax.GeneralConv(("NHWC", "OIHW", "NCHW"), 5, (3, 3)),
        stax.GeneralConvTranspose(("NHWC", "OIHW", "NHWC"), 5, (3, 3), padding="SAME"),
        stax.BatchNorm(), stax.BatchNorm(axis=(0,), scale=False), stax.MaxPool((2, 2)), stax.MaxPool((2, 3), (2, 2)),
        stax.SumPool((2, 2), padding="SAME"), stax.AvgPool((3, 3), (2, 2), padding="SAME"), stax.Flatten,
    )  # fmt: skip
    of_rows = (
        stax.Dense(3), stax.Tanh, stax.Relu, stax.Exp, stax.LogSoftmax, stax.Softmax, stax.Softplus, stax.Sigmoid, stax.Elu,
        stax.LeakyRelu, stax.Selu, stax.Gelu, stax.Identity, stax.Dropout(0.7), stax.Dropout(0.7, "test"),
        stax.shape_dependent(lambda shape: stax.Dense(shape[-1] * 2)),
    )  # fmt: skip
    return [
        *(_layer(jax, layer, IMAGES) for layer in of_images),
        *(_layer(jax, layer, ROWS) for layer in of_rows),
        _layer(jax, stax.Conv1DTranspose(2, (3,), (2,)), IMAGES[0]),
    ]


def networks(jax):
    stax = _library(jax, "stax")
    residual = stax.serial(
        stax.FanOut(2),
        stax.parallel(stax.serial(stax.Dense(4), stax.Dropout(0.9)), stax.Identity),
        stax.FanInSum,
    )
    joined = stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(2), residual), stax.FanInConcat())
    return _layer(jax, residual, ROWS), _layer(jax, joined, ROWS)


def stateful_draws(jax):
    rng = importlib.import_module(f"{jax.__name__}.experimental.random").stateful_rng(7)
    outer = importlib.import_module(f"{jax.__name__}.experimental.random").stateful_rng(3)

    @jax.jit
    def in_a_program():
        return outer.normal(1.0, 2.0, size=(2, 3)), outer.uniform(-1, 1, size=3)

    return (
        rng.random(), rng.random(4), rng.uniform(2, 3, (2, 2)), rng.normal(size=3), rng.integers(5, 50, size=6),
        rng.integers(9, size=(2,)), jax.random.key_data(rng.key()), in_a_program(), in_a_program(),
        [child.random() for child in rng.spawn(2)], jax.random.key_data(rng.split(3)._base_key), rng.random(),
    )  # fmt: skip


def lstms(jax):
    rnn = importlib.import_module(f"{jax.__name__}.experimental.rnn")
    results = []
    for layers, both in ((1, False), (2, False), (2, True)):
        sizes = 3, 4, layers
        weights = rnn.init_lstm_weight(jax.random.key(0), *sizes, both)
        cells = layers * (2 if both else 1)
        x = np.linspace(-1, 1, 3 * 5 * 3, dtype=np.float32).reshape(3, 5, 3)
        h, c = np.linspace(-1, 1, cells * 24, dtype=np.float32).reshape(2, cells, 3, 4)
        lengths = np.array([5, 2, 4], np.int32)

        def run(x, weights):
            parts = rnn.unpack_lstm_weights(weights, *sizes, both)  # noqa: B023
            return rnn.lstm_ref(x, h, c, *parts, lengths, *sizes, 0.0, both)  # noqa: B023

        def loss(x, weights):
            return sum((y**2).sum() for y in run(x, weights))

        results += [
            rnn.get_num_params_in_lstm(*sizes, both), weights, run(x, weights),
            jax.grad(loss, argnums=(0, 1))(x, weights), jax.jit(rnn.swap_lstm_gates, static_argnums=(1, 2, 3, 4))(weights, *sizes, both),
        ]  # fmt: skip
    return results


def option_names(jax):
    return sorted(name.removeprefix("jax_") for name in jax.config.values)


PROGRAMS = (descents, schedules, clipped, layers, networks)
