"""Functions of `nn` give what the reference's give, eagerly and under jit."""

import builtins

import numpy as np
import pytest
from corpus import nn_expressions as corpus
from rotation import rotating

import pellucid as pl

TOLERANCES = {"bfloat16": 2e-2, "float32": 3e-5, "complex64": 3e-5}


def function(text: str) -> str:
    """The function that an expression calls first."""
    return text.partition("nn.")[2].partition("(")[0]


@pytest.mark.parametrize(
    "text", rotating([(text,) for text in corpus.TEXTS], lambda case: function(case[0]))
)
def test_values_and_types_are_those_of_the_reference(oracle, text) -> None:
    [expected] = oracle.call_each(corpus.answers, [text])
    if isinstance(expected, str):
        with pytest.raises(getattr(builtins, expected)):
            corpus.evaluate(pl, text)
        return
    [ours] = corpus.answers(pl, [text])
    assert not isinstance(ours, str), ours
    assert [leaf[:2] for leaf in ours] == [leaf[:2] for leaf in expected]
    for (dtype, _, a), (_, _, b) in zip(ours, expected, strict=True):
        tolerance = TOLERANCES.get(dtype, 0)
        np.testing.assert_allclose(a, b, tolerance, tolerance)


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
        "nn.scaled_matmul", "nn.initializers.Initializer", "nn.initializers.kaiming_normal",
        "nn.initializers.kaiming_uniform", "nn.initializers.xavier_normal", "nn.initializers.xavier_uniform",
    }  # fmt: skip


def test_scaled_products_are_products_of_scaled_operands() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    scales = np.array([[[1, 2]] * 3, [[3, 0.5]] * 3], np.float32)
    scaled = x * np.repeat(scales, 2, axis=-1)
    result = pl.jit(pl.nn.scaled_matmul)(x, x, scales, scales)
    np.testing.assert_allclose(result, np.einsum("bmk,bnk->bmn", scaled, scaled), rtol=1e-6)


def test_attention_refuses_operands_that_do_not_fit() -> None:
    q, k = np.ones((1, 2, 3, 4), np.float32), np.ones((1, 2, 2, 4), np.float32)
    with pytest.raises(ValueError, match="number of heads that divides"):
        pl.nn.dot_product_attention(q, k, k)
    with pytest.raises(NotImplementedError, match="cuDNN"):
        pl.nn.dot_product_attention(q, q, q, implementation="cudnn")
    with pytest.raises(ValueError, match="even size"):
        pl.nn.glu(q[..., :3])
