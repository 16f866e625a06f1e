"""Derivative rules under the names of `jax.interpreters.ad`.

A jvp rule is `rule(primals, tangents, **params)` and returns (result, tangent); a transpose rule is
`rule(cotangent, *operands, **params)`, whose linear operands are `UndefinedPrimal`, and returns a cotangent for each of
these and None for the others. Tangents and cotangents may be `Zero`. With `multiple_results`, results, tangents and
cotangents of results are lists.
"""

from __future__ import annotations

from typing import Any

from pellucid._machine.base.errors import ArgumentTypeError
from pellucid._machine.base.functional import copy_with_name, strict_zip
from pellucid._machine.base.typing import Function
from pellucid._machine.ir.primitive import Primitive, params_of
from pellucid._machine.ir.rules import (
    LinearOperand as UndefinedPrimal,
    Zero,
    is_linear,
)
from pellucid._machine.primitives.creation import instantiate, zeros
from pellucid._machine.primitives.families import add_any_p as add_jaxvals_p, add_tangents
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.transforms.jvp import JVPTrace, JVPTracer
from pellucid.interpreters.tables import RuleTable, checked_list
from pellucid.interpreters.user_primitive import as_list, from_list

instantiate_zeros = copy_with_name(instantiate, "instantiate_zeros", __name__)
is_undefined_primal = copy_with_name(is_linear, "is_undefined_primal", __name__)
zeros_like_aval = copy_with_name(zeros, "zeros_like_aval", __name__)


def add_jaxvals(x: Any, y: Any) -> Any:
    """Sum of two tangents or cotangents of one type, either of which may be a known zero.

    >>> add_jaxvals(np.float32(1), np.float32(2))
    Array(3., dtype=float32)
    """
    return add_tangents(x, y)


def _adapted_jvp(primitive: Primitive[Any], rule: Function) -> Function:
    def jvp(primals: Any, tangents: Any, params: Any) -> Any:
        both = rule(primals, tangents, **params._asdict())
        result, tangent = checked_list(primitive, "jvp", both, 2)
        results = as_list(primitive, result, "jvp rule")
        return results, checked_list(
            primitive, "jvp", as_list(primitive, tangent, "jvp rule"), len(results)
        )

    return jvp


def _stated_jvp(primitive: Primitive[Any], jvp: Function) -> Function:
    def rule(primals: Any, tangents: Any, **params: Any) -> Any:
        if all(type(t) is Zero for t in tangents):
            result = primitive.bind(*primals, **params)
            zeros = [Zero(type_of(x).tangent()) for x in as_list(primitive, result, "result")]
            return result, from_list(primitive, zeros)
        results, out_tangents = jvp(tuple(primals), tuple(tangents), params_of(primitive, params))
        return from_list(primitive, results), from_list(primitive, out_tangents)

    return rule


def _adapted_transpose(primitive: Primitive[Any], rule: Function) -> Function:
    def transpose(cotangents: Any, operands: Any, params: Any) -> Any:
        results = rule(from_list(primitive, cotangents), *operands, **params._asdict())
        if type(results) is Zero:
            return [Zero(x.aval) if is_undefined_primal(x) else None for x in operands]
        return checked_list(primitive, "transpose", results, len(operands))

    return transpose


def _stated_transpose(primitive: Primitive[Any], transpose: Function) -> Function:
    def rule(cotangent: Any, *operands: Any, **params: Any) -> Any:
        cotangents = as_list(primitive, cotangent, "cotangent")
        if all(type(ct) is Zero for ct in cotangents):
            return [Zero(x.aval) if is_undefined_primal(x) else None for x in operands]
        return list(transpose(cotangents, operands, params_of(primitive, params)))

    return rule


primitive_jvps = RuleTable("jvp", _adapted_jvp, _stated_jvp)
"""The jvp rules of all primitives."""
primitive_transposes = RuleTable("transpose", _adapted_transpose, _stated_transpose)
"""The transpose rules of all primitives."""


def get_primitive_transpose(p: Primitive[Any]) -> Function:
    """The transpose rule of `p`.

    Raises: MissingRule if it has none.

    >>> get_primitive_transpose(pl.lax.neg_p)(np.float32(2), UndefinedPrimal(pl.typeof(np.float32(0))))
    [Array(-2., dtype=float32)]
    """
    if p not in primitive_transposes:
        raise p.missing("transpose")
    return primitive_transposes[p]


def _sum_of_terms(primitive: Primitive[Any], result: Any, terms: Any) -> Any:
    total: Any = Zero(type_of(result).tangent())
    for term in terms:
        total = add_tangents(total, term)
    return total


def _check_one_result(primitive: Primitive[Any], caller: str) -> None:
    if primitive.multiple_results:
        raise ArgumentTypeError(
            f"{caller} is for primitives with one result.",
            got=f"`{primitive.name}` has multiple_results",
            do=f"Register a rule: `ad.primitive_jvps[{primitive.name}_p] = rule`.",
        )


def defjvp2(primitive: Primitive[Any], *jvprules: Function | None) -> None:
    """The jvp rule that sums `rule(tangent, result, *primals, **params)` over operands; None entries are zero.

    Raises: ArgumentTypeError for a primitive with multiple results, or for another number of rules than operands.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("half_exp")
    >>> _ = p.def_impl(lambda x: np.exp(x) / 2)
    >>> defjvp2(p, lambda t, result, x: t * result)
    >>> pl.jvp(p.bind, (np.float32(0),), (np.float32(4),))[1]
    Array(2., dtype=float32)
    """
    _check_one_result(primitive, "defjvp2")

    def rule(primals: Any, tangents: Any, **params: Any) -> Any:
        rules = checked_list(primitive, "jvp", jvprules, len(primals))
        result = primitive.bind(*primals, **params)
        terms = [
            term(t, result, *primals, **params)
            for term, t in strict_zip(rules, tangents)
            if term is not None and type(t) is not Zero
        ]
        return result, _sum_of_terms(primitive, result, terms)

    primitive_jvps[primitive] = rule


def defjvp(primitive: Primitive[Any], *jvprules: Function | None) -> None:
    """The jvp rule that sums `rule(tangent, *primals, **params)` over operands; None entries are zero.

    Raises: ArgumentTypeError for a primitive with multiple results, or for another number of rules than operands.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("half_square")
    >>> _ = p.def_impl(lambda x: x * x / 2)
    >>> defjvp(p, lambda t, x: t * x)
    >>> pl.jvp(p.bind, (np.float32(3),), (np.float32(2),))[1]
    Array(6., dtype=float32)
    """

    def without_result(rule: Function) -> Function:
        return lambda t, _, *primals, **params: rule(t, *primals, **params)

    _check_one_result(primitive, "defjvp")
    defjvp2(primitive, *(None if rule is None else without_result(rule) for rule in jvprules))


def deflinear2(primitive: Primitive[Any], transpose_rule: Function) -> None:
    """State that `primitive` is linear in all operands jointly, and how it is transposed.

    `transpose_rule(cotangent, *operands, **params)` returns a cotangent for each operand.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("mirror")
    >>> _ = p.def_impl(lambda x: x[::-1])
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> deflinear2(p, lambda cotangent, x: [p.bind(cotangent)])
    >>> pl.linear_transpose(p.bind, np.zeros(3))(np.arange(3.0))
    (Array([2., 1., 0.], dtype=float32),)
    """

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        return result, primitive.bind(*map(instantiate_zeros, tangents), **params)

    def transpose(cotangent: Any, *operands: Any, **params: Any) -> Any:
        if type(cotangent) is Zero:
            return cotangent
        return transpose_rule(cotangent, *operands, **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose


def deflinear(primitive: Primitive[Any], transpose_rule: Function) -> None:
    """`deflinear2` for a rule that takes the cotangent alone: `transpose_rule(cotangent, **params)`.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("turned")
    >>> _ = p.def_impl(lambda x: x.T)
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> deflinear(p, lambda cotangent: [cotangent.T])
    >>> pl.linear_transpose(p.bind, np.zeros((2, 2)))(np.array([[1.0, 2.0], [3.0, 4.0]]))[0].tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    deflinear2(primitive, lambda cotangent, *_, **params: transpose_rule(cotangent, **params))


def defbilinear(prim: Primitive[Any], lhs_rule: Function, rhs_rule: Function) -> None:
    """State that `prim` is linear in each of its two operands, and its two transpose rules.

    `lhs_rule(cotangent, x, y, **params)` returns the cotangent of x, which is undefined; `rhs_rule` that of y.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("scaled")
    >>> _ = p.def_impl(lambda x, y: x * y)
    >>> _ = p.def_abstract_eval(lambda x, y: x)
    >>> defbilinear(p, lambda ct, x, y: p.bind(ct, y), lambda ct, x, y: p.bind(x, ct))
    >>> pl.grad(p.bind, argnums=(0, 1))(np.float32(2), np.float32(3))
    (Array(3., dtype=float32), Array(2., dtype=float32))
    """
    defjvp(
        prim,
        lambda t, x, y, **params: prim.bind(t, y, **params),
        lambda t, x, y, **params: prim.bind(x, t, **params),
    )

    def transpose(cotangent: Any, x: Any, y: Any, **params: Any) -> Any:
        if is_undefined_primal(x) is is_undefined_primal(y):
            raise ArgumentTypeError(
                f"`{prim.name}` is linear in one operand at a time.",
                got="both are linear" if is_undefined_primal(x) else "none is linear",
            )
        if is_undefined_primal(x):
            return [lhs_rule(cotangent, x, y, **params), None]
        return [None, rhs_rule(cotangent, x, y, **params)]

    primitive_transposes[prim] = transpose


__all__ = [
    "JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "add_jaxvals", "add_jaxvals_p", "add_tangents", "defbilinear",
    "defjvp", "defjvp2", "deflinear", "deflinear2", "get_primitive_transpose", "instantiate_zeros",
    "is_undefined_primal", "primitive_jvps", "primitive_transposes", "zeros_like_aval",
]  # fmt: skip
