"""How large are transformed programs, and how much does reverse mode keep, compared with the reference?

For each program of the corpus of tests: equations after dead-code elimination, with those of inner programs, and bytes
of residuals when the program itself is differentiated. A name ends in `!` where ours is more.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import warnings
from typing import Any

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
CALLS = {
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "remat2",
    "checkpoint",
}
"""Primitives that only call a program: what they call is counted, they are not."""


def count(jaxpr: Any) -> int:
    """Equations of a program and of those within it."""
    total = 0
    for equation in jaxpr.eqns:
        total += equation.primitive.name not in CALLS
        params = equation.params if isinstance(equation.params, dict) else equation.params._asdict()
        for value in params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(item, "jaxpr", item)
                if hasattr(inner, "eqns"):
                    total += count(inner)
    return total


def measure(library: str) -> dict[str, list[int | None]]:
    """For each program: equations and bytes of residuals, or None where a number doesn't exist."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(TESTS))
    from corpus import compositions, models, transform_programs

    if library == "jax":
        import jax as lib
        from jax._src.ad_checkpoint import saved_residuals
        from jax._src.interpreters.partial_eval import dce_jaxpr

        alive = lambda jaxpr: dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]
    else:
        import pellucid as lib
        from pellucid.ir.rewriting import remove_dead_equations
        from pellucid.introspect import saved_residuals

        alive = lambda jaxpr: remove_dead_equations(jaxpr)[0]

    found: dict[str, list[int | None]] = {}
    for program, args in [*transform_programs.PROGRAMS, *models.PROGRAMS, *compositions.PROGRAMS]:
        fixed = {i for i, x in enumerate(args) if isinstance(x, (str, bool))}
        floats = [
            i for i, x in enumerate(args) if i not in fixed and np.asarray(x).dtype.kind in "fc"
        ]

        def of_floats(
            *xs: Any, program: Any = program, args: Any = args, floats: Any = floats
        ) -> Any:
            values = list(args)
            for i, x in zip(floats, xs, strict=True):
                values[i] = x
            results = lib.tree.leaves(program(lib, *values))
            return [y for y in results if np.dtype(getattr(y, "dtype", np.int32)).kind in "fc"]

        xs = [args[i] for i in floats]
        name = program.__name__
        while name in found:
            name += "'"
        numbers: list[int | None] = []
        for number in (
            lambda f=of_floats, xs=xs: count(alive(lib.make_jaxpr(f)(*xs).jaxpr)),
            lambda f=of_floats, xs=xs: sum(
                int(np.prod(a.shape)) * a.dtype.itemsize for a, _ in saved_residuals(f, *xs)
            ),
        ):
            try:
                numbers.append(number())
            except Exception:  # a loop without reverse mode, a value that tracing doesn't know
                numbers.append(None)
        found[name] = numbers
    return found


def compare() -> None:
    """Print the table."""
    answers = {}
    for library in ("pellucid", "jax"):
        run = subprocess.run(
            [sys.executable, __file__, "--worker", library],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        answers[library] = json.loads(run.stdout.splitlines()[-1])
    misses = [0, 0]
    print(f"{'program':<44} {'equations':>10} {'jax':>6}   {'residual bytes':>14} {'jax':>8}")
    for name, ours in answers["pellucid"].items():
        theirs = answers["jax"][name]
        more = [
            a is not None and b is not None and a > b for a, b in zip(ours, theirs, strict=True)
        ]
        misses = [m + x for m, x in zip(misses, more, strict=True)]
        show = lambda n: "-" if n is None else str(n)
        marks = ["!" if m else " " for m in more]
        print(
            f"{name:<44} {show(ours[0]):>9}{marks[0]} {show(theirs[0]):>6}   {show(ours[1]):>13}{marks[1]} {show(theirs[1]):>8}"
        )
    total = len(answers["pellucid"])
    print(f"{total} programs; more equations in {misses[0]}, more residual bytes in {misses[1]}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        compare()
