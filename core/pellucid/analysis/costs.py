"""What programs cost, estimated from types and traits: operations, transcendentals, bytes.

Counted as XLA counts: one operation for each element of a result, two for each product that is summed, and
functions such as `exp` apart, as transcendentals. Bytes are those of operands and results, each read or written
once; fusion makes the true figure smaller. What nobody can know is None: the trips of a `while`, native code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from pellucid.introspect import schema
from pellucid.introspect.bodies import bodies_of
from pellucid.introspect.columns import ProgramColumns, array_bytes
from pellucid.introspect.program import JaxprReading
from pellucid.ir.avals import ShapedArray
from pellucid.ir.jaxpr import Equation


class Cost(NamedTuple):
    """Estimated cost of one run; None where it can't be known."""

    flops: float | None
    transcendentals: float | None
    bytes: float | None

    def plus(self, other: Cost) -> Cost:
        return Cost(*map(_sum, self, other))

    def times(self, factor: float) -> Cost:
        return Cost(*[None if a is None else a * factor for a in self])

    def maximum(self, other: Cost) -> Cost:
        return Cost(
            *[
                None if a is None or b is None else max(a, b)
                for a, b in zip(self, other, strict=True)
            ]
        )


FREE = Cost(0, 0, 0)
UNKNOWN = Cost(None, None, None)


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def moved_bytes(
    touches: Literal["all", "part", "in place"], operands: Sequence[float], results: Sequence[float]
) -> float:
    """Bytes that an operation reads and writes, from those of its operands and results.

    `touches` is as in `Traits`: `"part"` reads of the first operand what it gives, `"in place"` writes into the first
    operand as much as the largest of the others has.
    """
    if touches == "part" and operands:
        return sum(operands[1:]) + 2 * sum(results)
    if touches == "in place" and len(operands) > 1:
        return sum(operands[1:]) + max(operands[1:])
    return sum(operands) + sum(results)


RunBodies = Literal["all", "one", "fused", "combined"]
"""How an operation runs the programs inside of it: all of them, as often as known; one, at most the dearest; all as one
kernel, which moves the operation's own bytes; the first for each of the operation's own `flops`, to combine elements."""


class Costs:
    """Costs of the equations of a program, given one after the other; those that run bodies cost what is inside."""

    def __init__(self, program: ProgramColumns | schema.ProgramRecord) -> None:
        self._program = program
        self._own: list[tuple[Cost, RunBodies | None]] = []
        self._bodies: dict[int, Cost] = {}

    def add(self, own: Cost, runs: RunBodies | None = None) -> None:
        """The next equation costs `own` without its bodies, which it runs as `runs` says."""
        self._own.append((own, runs))

    def columns(self) -> list[schema.CostColumn]:
        """The costs as columns, once the whole program is written."""
        equations = self._program.equations
        self._uses: list[list[tuple[int, int | None]]] = []
        next_use = 0
        for count in equations.body_counts:
            uses = slice(next_use, next_use + count)
            self._uses.append(
                list(zip(equations.bodies[uses], equations.body_trips[uses], strict=True))
            )
            next_use += count
        rows = list(map(self._row, range(len(self._own))))
        units = (("flops", "flop"), ("transcendentals", "op"), ("bytes", "B"))
        return [
            schema.CostColumn(
                name=name, unit=unit, basis="estimate", values=[_number(row[i]) for row in rows]
            )
            for i, (name, unit) in enumerate(units)
        ]

    def _row(self, row: int) -> Cost:
        own, runs = self._own[row]
        uses = self._uses[row]
        if runs is None or not uses:
            return own
        if runs == "combined":
            if own.flops is None:
                return own
            return self._body(uses[0][0]).times(own.flops)._replace(bytes=own.bytes)
        total = FREE
        for body, trips in uses:
            if runs == "one":
                total = total.maximum(self._body(body))
            else:
                unknown = trips is None and runs == "all"
                total = total.plus(UNKNOWN if unknown else self._body(body).times(trips or 1))
        return total._replace(bytes=own.bytes) if runs == "fused" else total

    def _body(self, index: int) -> Cost:
        found = self._bodies.get(index)
        if found is None:
            body = self._program.bodies[index]
            found = FREE
            for row in range(body.first_equation, body.first_equation + body.equation_count):
                found = found.plus(self._row(row))
            self._bodies[index] = found
        return found


def _number(value: float | None) -> float | None:
    """Whole numbers as integers: their text is shorter."""
    return int(value) if value is not None and value == int(value) else value


def jaxpr_costs(reading: JaxprReading) -> list[schema.CostColumn]:
    """Costs of the equations of a jaxpr, as columns."""
    costs = Costs(reading.record)
    for jaxpr in reading.bodies:
        for equation in jaxpr.equations:
            runs = _RUNS.get(equation.primitive.name, "all") if bodies_of(equation) else None
            costs.add(FREE if runs in ("all", "one") else equation_cost(equation), runs)
    return costs.columns()


_RUNS: dict[str, RunBodies] = {
    "cond": "one",
    **dict.fromkeys(("reduce", "reduce_window", "scatter_apply"), "combined"),
}


def equation_cost(equation: Equation) -> Cost:
    """Cost of one run of an equation, without the programs inside of it."""
    operands = [atom.aval for atom in equation.operands]
    results = [var.aval for var in equation.results]
    operand_bytes, result_bytes = list(map(_bytes_of, operands)), list(map(_bytes_of, results))
    if None in operand_bytes or None in result_bytes:
        return UNKNOWN
    name = equation.primitive.name
    touches: Any = _TOUCHES.get(name, "in place" if name.startswith("scatter") else "all")
    rule = _COUNTS.get(name)
    flops, transcendentals = (
        (None, None) if rule is None else rule(operands, results, equation.params)
    )
    return Cost(flops, transcendentals, moved_bytes(touches, operand_bytes, result_bytes))  # type: ignore[arg-type]


def _bytes_of(aval: Any) -> int | None:
    return array_bytes(aval) if isinstance(aval, ShapedArray) else 0


_TOUCHES = {"gather": "part", "dynamic_slice": "part", "dynamic_update_slice": "in place"}


Avals = Sequence[Any]
Counted = tuple[float | None, float | None]
"""Operations and transcendentals."""
Rule = Callable[[Avals, Avals, Any], Counted]
"""(types of operands, types of results, params) to what is counted."""


def _size(aval: Any) -> float:
    """Number of elements; tokens and references have none."""
    return float(aval.size) if isinstance(aval, ShapedArray) else 0.0


def _words(aval: Any) -> float:
    """Real operations that a product of two such elements takes, relative to real ones."""
    return 4.0 if getattr(getattr(aval, "dtype", None), "kind", "") == "c" else 1.0


def no_operations(operands: Avals, results: Avals, params: Any) -> Counted:
    """Data moves, nothing is computed."""
    return 0, 0


def each_element(operands: Avals, results: Avals, params: Any) -> Counted:
    """One operation for each element of the results."""
    return sum(_size(r) * _words(r) for r in results), 0


def each_element_transcendental(operands: Avals, results: Avals, params: Any) -> Counted:
    """One transcendental for each element of the results."""
    return 0, sum(map(_size, results))


def _integer_pow(operands: Avals, results: Avals, params: Any) -> Counted:
    """Repeated squaring: one product for each bit, one more for each bit that is set."""
    exponent = abs(params.y)
    products = exponent.bit_length() - 1 + exponent.bit_count() - 1 if exponent else 0
    return _size(results[0]) * _words(results[0]) * (products + (params.y < 0)), 0


def each_operand_element(operands: Avals, results: Avals, params: Any) -> Counted:
    """One operation for each element that is combined with another: reductions, running sums."""
    return max(0.0, _size(operands[0]) - _size(results[0])), 0


def _first_operand(operands: Avals, results: Avals, params: Any) -> Counted:
    return _size(operands[0]), 0


def _running(operands: Avals, results: Avals, params: Any) -> Counted:
    """A scan by halves combines each element about twice."""
    return 2 * _size(operands[0]), 0


def _running_transcendental(operands: Avals, results: Avals, params: Any) -> Counted:
    return 4 * _size(operands[0]), 4 * _size(operands[0])


def _windows(operands: Avals, results: Avals, params: Any) -> Counted:
    """One operation for each further element of each window."""
    window = math.prod(params.window_dimensions)
    return _size(results[0]) * max(0, window - 1), 0


def _window_scatter(operands: Avals, results: Avals, params: Any) -> Counted:
    window = math.prod(params.window_dimensions)
    return _size(operands[0]) * window, 0


def _dot_general(operands: Avals, results: Avals, params: Any) -> Counted:
    (lhs_contracting, _), _ = params.dimension_numbers
    inner = math.prod(operands[0].shape[d] for d in lhs_contracting)
    return 2.0 * _size(results[0]) * inner * _words(results[0]), 0


def _ragged_dot(operands: Avals, results: Avals, params: Any) -> Counted:
    """Each row meets one group."""
    return 2.0 * _size(results[0]) * operands[0].shape[-1] * _words(results[0]), 0


def _convolution(operands: Avals, results: Avals, params: Any) -> Counted:
    """Each element of the result sums over the kernel but its output features (features are those of a group)."""
    kernel = operands[1]
    features = kernel.shape[params.dimension_numbers.rhs_spec[0]]
    inner = _size(kernel) / max(1, features)
    return 2.0 * _size(results[0]) * inner * _words(results[0]), 0


def _fft(operands: Avals, results: Avals, params: Any) -> Counted:
    """5 N log2 N for a transform of N complex numbers (Cooley and Tukey), half of it where one side is real."""
    n = math.prod(params.fft_lengths)
    transforms = math.prod(results[0].shape[: -len(params.fft_lengths) or None])
    is_complex = operands[0].dtype.kind == results[0].dtype.kind == "c"
    return transforms * 5.0 * n * math.log2(max(n, 1)) * (1.0 if is_complex else 0.5), 0


def _sort(operands: Avals, results: Avals, params: Any) -> Counted:
    """N log2 N comparisons."""
    n = operands[0].shape[params.dimension]
    return _size(operands[0]) * math.log2(max(n, 2)) * params.num_keys, 0


def _top_k(operands: Avals, results: Avals, params: Any) -> Counted:
    return _size(operands[0]) * math.log2(params.k + 1), 0


def _updates(operands: Avals, results: Avals, params: Any) -> Counted:
    """One operation for each element of the updates."""
    return _size(operands[-1]), 0


def _bits(operands: Avals, results: Avals, params: Any) -> Counted:
    """Threefry-2x32: 20 rounds of three operations and key schedule for two words."""
    return 35 * sum(map(_size, results)), 0


def _matrix(per_matrix: Callable[[int, int], float]) -> Rule:
    """A decomposition of matrices, by the operations for one of m rows and n columns."""

    def rule(operands: Avals, results: Avals, params: Any) -> Counted:
        *batch, m, n = operands[0].shape
        return math.prod(batch) * per_matrix(m, n) * _words(operands[0]), 0

    return rule


def _triangular_solve(operands: Avals, results: Avals, params: Any) -> Counted:
    n = operands[0].shape[-1]
    return n * _size(operands[1]) * _words(operands[1]), 0


# Counts of decompositions are the leading terms in Golub and Van Loan, Matrix Computations.
_COUNTS: dict[str, Rule] = {
    "dot_general": _dot_general,
    "scaled_dot": _dot_general,
    "ragged_dot": _ragged_dot,
    "ragged_dot_general": _ragged_dot,
    "conv_general_dilated": _convolution,
    "fft": _fft,
    "sort": _sort,
    "top_k": _top_k,
    "approx_top_k": _top_k,
    "integer_pow": _integer_pow,
    "reduce": each_operand_element,
    "scatter_apply": _updates,
    "random_bits": _bits,
    "threefry2x32": _bits,
    "random_gamma": _bits,
    "rng_bit_generator": _bits,
    "rng_uniform": _bits,
    "triangular_solve": _triangular_solve,
    "tridiagonal_solve": lambda operands, results, params: (8 * _size(results[0]), 0),
    "cholesky": _matrix(lambda m, n: n**3 / 3),
    "cholesky_update": _matrix(lambda m, n: 4.0 * n**2),
    "lu": _matrix(lambda m, n: m * n**2 - n**3 / 3 if m >= n else n * m**2 - m**3 / 3),
    "qr": _matrix(
        lambda m, n: 2 * m * n**2 - 2 * n**3 / 3 if m >= n else 2 * n * m**2 - 2 * m**3 / 3
    ),
    "geqrf": _matrix(
        lambda m, n: 2 * m * n**2 - 2 * n**3 / 3 if m >= n else 2 * n * m**2 - 2 * m**3 / 3
    ),
    "householder_product": _matrix(lambda m, n: 2 * m * n**2 - 2 * n**3 / 3),
    "eigh": _matrix(lambda m, n: 9.0 * n**3),
    "eig": _matrix(lambda m, n: 25.0 * n**3),
    "svd": _matrix(lambda m, n: 4.0 * max(m, n) ** 2 * min(m, n) + 22.0 * min(m, n) ** 3),
    "schur": _matrix(lambda m, n: 25.0 * n**3),
    "hessenberg": _matrix(lambda m, n: 10 * n**3 / 3),
    "tridiagonal": _matrix(lambda m, n: 4 * n**3 / 3),
    "cumlogsumexp": _running_transcendental,
    "select_and_scatter_add": _window_scatter,
    "select_and_gather_add": _windows,
    "argmax": _first_operand,
    "argmin": _first_operand,
}
_COUNTS |= dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), _running)
_COUNTS |= dict.fromkeys(
    (
        "reduce_sum",
        "reduce_prod",
        "reduce_max",
        "reduce_min",
        "reduce_and",
        "reduce_or",
        "reduce_xor",
    ),
    each_operand_element,
)
_COUNTS |= dict.fromkeys(
    ("reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window"), _windows
)
_COUNTS |= dict.fromkeys(
    ("scatter-add", "scatter_add", "scatter-sub", "scatter-mul", "scatter_mul", "scatter-min", "scatter_min",
     "scatter-max", "scatter_max", "scatter_sub"),
    _updates,
)  # fmt: skip
_COUNTS |= dict.fromkeys(
    ("exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh",
     "tanh", "asinh", "acosh", "atanh", "logistic", "pow", "sqrt", "rsqrt", "cbrt", "erf", "erfc", "erf_inv",
     "lgamma", "digamma", "polygamma", "zeta", "igamma", "igammac", "igamma_grad_a", "random_gamma_grad",
     "regularized_incomplete_beta", "bessel_i0e", "bessel_i1e", "square_root"),
    each_element_transcendental,
)  # fmt: skip
_COUNTS |= dict.fromkeys(
    ("broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "rev", "slice", "dynamic_slice",
     "dynamic_update_slice", "concatenate", "stack", "split", "unstack", "tile", "pad", "gather", "scatter", "iota", "iota_2x32_shape",
     "copy", "copy_p", "device_put", "sharding_constraint", "bitcast_convert_type", "stop_gradient",
     "optimization_barrier", "create_token", "after_all", "dce_sink", "stage", "xla_metadata_value", "inspect_sharding", "random_wrap", "random_unwrap", "broadcast", "full",
     "empty", "real", "imag", "complex", "reshard", "mesh_cast", "layout_constraint", "pvary", "axis_index", "platform_index",
     "iota_2x32_shape", "get", "swap", "new_ref", "freeze", "empty_ref", "free_ref",
     "name", "tie_in", "with_memory_space_constraint", "to_memory_space"),
    no_operations,
)  # fmt: skip
_COUNTS |= dict.fromkeys(
    ("neg", "add", "sub", "mul", "div", "rem", "abs", "sign", "floor", "ceil", "round", "max", "min", "and", "or",
     "xor", "not", "eq", "ne", "lt", "le", "gt", "ge", "eq_to", "lt_to", "le_to", "select_n", "clamp", "square",
     "convert_element_type", "reduce_precision", "is_finite", "nextafter", "shift_left", "shift_right_logical",
     "shift_right_arithmetic", "population_count", "clz", "conj", "add_any", "add_jaxvals", "copysign", "mulhi",
     "random_seed", "random_fold_in", "random_split", "random_clone", "psum", "psum2", "psum_invariant", "pmax",
     "pmin", "reduce_scatter", "addupdate"),
    each_element,
)  # fmt: skip
_COUNTS |= dict.fromkeys(
    (
        "all_gather",
        "all_to_all",
        "ppermute",
        "pbroadcast",
        "all_gather_invariant",
        "ragged_all_to_all",
        "psend",
        "precv",
        "all_gather_reduced",
        "vary_unreduced",
        "pcast",
    ),
    no_operations,
)


def has_count(primitive: str) -> bool:
    """Whether operations of a primitive without programs inside are counted."""
    return primitive in _COUNTS
