"""How large transformed programs are: equations after dead-code elimination, bytes of residuals.

`sizes(library)` measures every program of the corpus that differentiates, batches, loops or branches. Where both
libraries run the same but write it in another place, it is counted alike:

* a call is not counted, what it calls is;
* the transpose of a `linear_call`, which is no equation of the program, is not;
* a reshape that permutes first is a transpose and a reshape;
* of a batched loop whose elements end apart, the test whether one goes on and the choice of each element's values are
  counted, which the reference adds when it lowers;
* arguments, which the caller holds anyway, are no residuals.
"""

import importlib
import warnings

import numpy as np

from corpus import compositions, models, transform_programs

PROGRAMS = [*transform_programs.PROGRAMS, *models.PROGRAMS, *compositions.PROGRAMS]

REASONS = {
    "custom_batching": "a number that a rule of custom_vmap gets is an array of the program, whose conversion is an equation",
    "safe_branch": "the derivative of a square root is made of the root, which is kept anyway (decisions/0002)",
    "reduced_by_function": "the derivative of a reduction by a function respects its starting value; the reference's doesn't",
}
"""Programs in which ours is larger, and why."""

CALLS = {
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint",
}  # fmt: skip
"""Primitives that only call a program."""


def count(jaxpr):
    """Equations of a program and of those within it."""
    total = 0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        params = equation.params if isinstance(equation.params, dict) else equation.params._asdict()
        total += name not in CALLS
        if name == "while":
            total += _added_by_lowering(params["cond_jaxpr"].jaxpr, len(equation.outvars))
        if name == "reshape":
            total += params["dimensions"] is not None
        for key, value in params.items():
            if (name, key) == ("linear_call", "transpose"):
                continue
            for item in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(item, "jaxpr", item)
                if hasattr(inner, "eqns"):
                    total += count(inner)
    return total


def _added_by_lowering(condition, n_carried):
    """Equations that lowering adds to a loop: none but for a condition that is a whole batch."""
    [result] = condition.outvars
    return 1 + count(condition) + n_carried if result.aval.shape else 0


def without_dead_code(library, jaxpr):
    """`jaxpr` as the library prunes it."""
    if library.__name__ == "jax":
        pruning = importlib.import_module("jax._src.interpreters.partial_eval")
        return pruning.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]
    return importlib.import_module("pellucid._machine.ir.rewriting").remove_dead_equations(jaxpr)[0]


def kept_bytes(library, function, args):
    """Bytes that differentiating `function` keeps, besides its arguments."""
    where = "jax._src.ad_checkpoint" if library.__name__ == "jax" else "pellucid.introspect"
    kept = importlib.import_module(where).saved_residuals(function, *args)
    return sum(
        int(np.prod(aval.shape)) * aval.dtype.itemsize
        for aval, text in kept
        if not text.startswith("from the argument")
    )


def of_floats(library, program, args):
    """(the floating results of `program` as a function of its floating arguments, these arguments)."""
    positions = [
        i
        for i, x in enumerate(args)
        if not isinstance(x, (str, bool)) and np.asarray(x).dtype.kind in "fc"
    ]

    def function(*xs):
        values = list(args)
        for i, x in zip(positions, xs, strict=True):
            values[i] = x
        results = library.tree.leaves(program(library, *values))
        return [y for y in results if np.dtype(getattr(y, "dtype", np.int32)).kind in "fc"]

    return function, [args[i] for i in positions]


def sizes(library):
    """For each program, by name: (equations, bytes of residuals); the text of an error where there is no number."""
    found = {}
    for program, args in PROGRAMS:
        name = program.__name__
        while name in found:
            name += "'"
        function, xs = of_floats(library, program, args)
        measures = (
            lambda f=function, xs=xs: count(
                without_dead_code(library, library.make_jaxpr(f)(*xs).jaxpr)
            ),
            lambda f=function, xs=xs: kept_bytes(library, f, xs),
        )
        found[name] = tuple(_number_or_error(measure) for measure in measures)
    return found


def _number_or_error(measure):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return measure()
        except (
            Exception
        ) as error:  # no reverse mode through this loop, a value that tracing doesn't know
            return f"{type(error).__name__}: {error}"


def larger(ours, theirs):
    """Names of programs of which a size in `ours` is larger than in `theirs`, or in ours alone has no number."""
    return {
        name
        for name, pair in ours.items()
        if any(
            isinstance(b, int) and (not isinstance(a, int) or a > b)
            for a, b in zip(pair, theirs[name], strict=True)
        )
    }
