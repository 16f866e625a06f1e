"""Functions of `nn` give what the reference's give, eagerly and under jit."""

import numpy as np
import pytest
from agreement import assert_agrees, called
from corpus import nn_expressions as corpus
from rotation import rotating

import pellucid as pl

TOLERANCES = {"bfloat16": 2e-2, "float32": 3e-5, "complex64": 3e-5}


def closeness(dtype: str, _: np.ndarray) -> tuple[float, float]:
    """Tolerances by dtype."""
    return (TOLERANCES.get(dtype, 0.0),) * 2


@pytest.mark.parametrize(
    "text", rotating([(text,) for text in corpus.TEXTS], lambda case: called(case[0], "nn."))
)
def test_values_and_types_are_those_of_the_reference(oracle, text) -> None:
    assert_agrees(oracle, corpus, text, closeness)


def test_every_function_is_compared() -> None:
    all_texts = " ".join(corpus.TEXTS)
    modules = {"nn.": pl.nn, "nn.initializers.": pl.nn.initializers}
    missing = [
        f"{prefix}{name}"
        for prefix, module in modules.items()
        for name in getattr(module, "__all__", dir(module))
        if not name.startswith("_") and callable(getattr(module, name))
        if f"{prefix}{name}(" not in all_texts
    ]
    assert set(missing) <= {
        "nn.scaled_matmul", "nn.get_scaled_dot_general_config", "nn.scaled_dot_general", "nn.initializers.Initializer", "nn.initializers.kaiming_normal",
        "nn.initializers.kaiming_uniform", "nn.initializers.xavier_normal", "nn.initializers.xavier_uniform",
    }  # fmt: skip


@pytest.mark.parametrize("size", [-1, 1.5, "a"])
def test_one_hot_needs_a_size(size) -> None:
    with pytest.raises(TypeError, match="one_hot"):
        pl.nn.one_hot(np.array([0, 1]), size)


@pytest.mark.parametrize(
    ("shape", "dtype", "error"),
    [((0, 3), None, ValueError), ((-1, 3), None, ValueError), ((2, 2), int, TypeError)],
)
def test_scaled_initializers_need_sizes_and_inexact_dtypes(shape, dtype, error) -> None:
    with pytest.raises(error, match="variance_scaling"):
        pl.nn.initializers.glorot_normal()(pl.random.key(0), shape, dtype)


def test_keys_have_no_activations() -> None:
    with pytest.raises(TypeError, match=r"nn\.sigmoid needs numbers"):
        pl.nn.sigmoid(pl.random.key(0))


def test_attention_refuses_operands_that_do_not_fit() -> None:
    q, k = np.ones((1, 2, 3, 4), np.float32), np.ones((1, 2, 2, 4), np.float32)
    with pytest.raises(ValueError, match="number of heads that divides"):
        pl.nn.dot_product_attention(q, k, k)
    with pytest.raises(NotImplementedError, match="cuDNN"):
        pl.nn.dot_product_attention(q, q, q, implementation="cudnn")
    with pytest.raises(ValueError, match="even size"):
        pl.nn.glu(q[..., :3])
