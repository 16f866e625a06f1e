"""Each law of `pellucid.test_util` holds for a right primitive, and finds the fault that it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import test_util
from pellucid.errors import ArgumentValueError
from pellucid.experimental.custom_partitioning import custom_partitioning
from pellucid.extend.core import Primitive
from pellucid.interpreters import ad, batching, mlir
from pellucid.test_util import LawError

X = np.array([[1, -2, 3, 4], [0.5, 6, -7, 8]], np.float32)


def triple(
    *,
    evaluate: Callable[[Any], Any] = lambda x: np.asarray(x) * 3,
    lowered: Callable[[Any], Any] = lambda x: x * 3,
    stated: Callable[[Any], Any] = lambda x: pl.core.ShapedArray(x.shape, x.dtype),
    transposed: Callable[[Any], Any] = lambda ct: ct * 3,
) -> Callable[[Any], Any]:
    """The function of a linear primitive, one of whose rules may be another one."""
    triple_p = Primitive("triple")
    triple_p.def_impl(evaluate)
    triple_p.def_abstract_eval(stated)
    mlir.register_lowering(triple_p, mlir.lower_fun(lowered, multiple_results=False))
    ad.deflinear2(triple_p, lambda ct, x: [transposed(ct)])
    batching.defvectorized(triple_p)
    return triple_p.bind


def batched_along_the_first_axis(x: Any) -> Any:
    """x, with a rule for batches that takes no notice of which axis is the batch."""
    f = pl.custom_batching.custom_vmap(lambda x: jnp.cumsum(x, axis=0))
    f.def_vmap(lambda size, is_batched, x: (jnp.cumsum(x, axis=0), True))
    return f(x)


def partitioned_sum() -> Callable[[Any], Any]:
    """A sum whose partition forgets what the other devices have."""
    total = custom_partitioning(lambda x: jnp.sum(x))
    total.def_partition(
        infer_sharding_from_operands=lambda mesh, arguments, result: result.sharding,
        partition=lambda mesh, arguments, result: (
            mesh, jnp.sum, pl.NamedSharding(mesh, pl.P()), (arguments[0].sharding,),
        ),
        sharding_rule="i j -> ",
    )  # fmt: skip
    return total


def test_a_right_primitive_keeps_all_laws() -> None:
    test_util.check_laws(triple(), (X,), lambda x: x * 3)


FAULTS: dict[str, tuple[Callable[..., None], Callable[..., Any], str]] = {
    "types": (
        test_util.check_types,
        triple(stated=lambda x: pl.core.ShapedArray((*x.shape, 1), x.dtype)),
        r"types: `.*` gives another type than it states",
    ),
    "lowering": (test_util.check_lowering, triple(lowered=lambda x: x * 4), "lowering: .* two values"),
    "adjoint": (test_util.check_adjoint, triple(transposed=lambda ct: ct * 2), "adjoint: reverse"),
    "batching": (test_util.check_batching, batched_along_the_first_axis, "batching over axes"),
    "sharding": (test_util.check_sharding, partitioned_sum(), "sharding of dimension . of argument 0"),
    "reference": (
        lambda f, args: test_util.check_reference(f, args, np.cos), triple(), "reference: .* two values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_law_finds_its_fault(fault: str) -> None:
    law, function, message = FAULTS[fault]
    with pytest.raises(LawError, match=message):
        law(function, (X,))
    with pytest.raises(LawError, match=message):
        test_util.check_laws(function, (X,), np.cos, skip={*test_util.laws.LAWS} - {fault})


def test_a_size_that_must_be_known_is_found() -> None:
    by_size = pl.custom_batching.custom_vmap(lambda x: x * 2)
    by_size.def_vmap(lambda size, is_batched, x: (x * 2 if size < 3 else x + x, True))
    test_util.check_batching(by_size, (X,))
    with pytest.raises(pl.errors.InconclusiveDimensionOperation):
        test_util.check_symbolic_sizes(by_size, (X,))


def test_results_of_other_structures_are_named() -> None:
    def f(x: Any) -> Any:
        return {"a": x} if isinstance(x, np.ndarray) else {"b": x}

    with pytest.raises(
        LawError, match=r"(?s)lowering: .* two structures.*compiled: .*b.*eager: .*a"
    ):
        test_util.check_lowering(f, (X,))


def test_nan_equals_nan_and_flags_are_compared() -> None:
    with pytest.warns(RuntimeWarning, match="invalid value"):
        test_util.check_reference(jnp.log, (-np.abs(X),), np.log)
    test_util.check_laws(jnp.isfinite, (X,), np.isfinite, skip=["derivatives", "adjoint"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: test_util.check_laws(jnp.sin, (X,), skip=["type"]), "`skip` must name laws"),
        (lambda: test_util.check_adjoint(jnp.isfinite, (X,)), "no floating or complex result"),
        (
            lambda: test_util.check_adjoint(jnp.sin, (np.arange(3),)),
            "no floating or complex argument",
        ),
        (lambda: test_util.check_sharding(jnp.sin, (X[:1, :3],)), "no dimension .* even size"),
    ],
)
def test_what_no_law_can_check_is_refused(call: Callable[[], None], message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message):
        call()
