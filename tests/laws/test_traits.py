"""What the traits of a primitive state holds for its samples: linearity, NaNs, operation counts."""

import math

import numpy as np

from pellucid._machine.ir.jaxpr import Literal
from pellucid._machine.ir.primitive import registry
from pellucid._machine.primitives.families import kind_of
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.tracing.staging import stage
from pellucid._machine.tracing.trace import bind
from tests.laws.sample import eager_samples

EXTREMES = (math.inf, -math.inf, 0.0, -0.0, -1.0, 3e38, 0.5)


def sampled_equations():
    """For each primitive of the samples, an equation of it with values of its operands."""
    found = {}
    for sample in eager_samples():
        if sample.needs_x64:
            continue
        jaxpr, consts = stage(sample.function, [type_of(x) for x in sample.arguments])
        new = {e.primitive.name for e in jaxpr.equations} - found.keys()
        if not new:
            continue
        values = dict(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, sample.arguments, strict=True))
        for equation in jaxpr.equations:
            operands = [a.val if type(a) is Literal else values[a] for a in equation.operands]
            results = bind(equation.primitive, *operands, params=equation.params)
            values.update(zip(equation.results, results, strict=True))
            found.setdefault(equation.primitive.name, (equation, operands))
    return found


def is_inexact(x):
    return kind_of(type_of(x).dtype) in ("floating", "complex")


def is_additive(equation, operands, moving, rng):
    """Whether results at the sum of two values of the operands `moving` are the sums of results."""
    if any(not is_inexact(operands[i]) or type_of(operands[i]).dtype.itemsize < 2 for i in moving):
        return True  # sums of narrow types wrap, or are rounded too much to say
    others = list(operands)
    for i in moving:
        aval = type_of(operands[i])
        others[i] = rng.integers(-3, 3, aval.shape).astype(aval.dtype)
    sums = [
        np.asarray(a) + b if i in moving else a
        for i, (a, b) in enumerate(zip(operands, others, strict=True))
    ]
    at_first, at_second, at_sum = (
        bind(equation.primitive, *xs, params=equation.params) for xs in (operands, others, sums)
    )
    return all(
        np.allclose(
            np.asarray(s, np.complex128),
            np.asarray(a, np.complex128) + np.asarray(b, np.complex128),
            rtol=1e-2,
            atol=1e-2,
        )
        for a, b, s in zip(at_first, at_second, at_sum, strict=True)
        if is_inexact(s)
    )


def extreme(x):
    aval = type_of(x)
    if not is_inexact(x):
        return x
    return np.resize(np.asarray(EXTREMES, np.float32), aval.shape).astype(aval.dtype)


def test_samples_have_the_traits_of_their_primitives():
    rng = np.random.default_rng(0)
    broken = []
    found = sampled_equations()
    assert len(found) > 130
    for name, (equation, operands) in found.items():
        traits, params = equation.primitive.traits, equation.params
        if len(equation.results) != 1 and not traits.returns_list:
            broken.append((name, "several results"))
        if traits.flops is None:
            continue  # the programs within have traits
        avals = [type_of(x) for x in operands]
        linear = traits.linear_for(avals, params)
        passive = traits.passive_operands(len(operands))
        active = [i for i in range(len(operands)) if i not in passive]
        groups = {"all": [active], "each": [[i] for i in active], None: []}.get(linear, [linear])
        broken += [
            (name, "linear in", g) for g in groups if not is_additive(equation, operands, g, rng)
        ]
        if not traits.makes_nan:
            results = bind(equation.primitive, *map(extreme, operands), params=params)
            if any(is_inexact(r) and np.isnan(np.asarray(r)).any() for r in results):
                broken.append((name, "makes NaN"))
        results = [v.aval for v in equation.results]
        for count in traits.counts(avals, results, params):
            if count is None or not 0 <= count < math.inf:
                broken.append((name, "count", count))
    assert broken == []


def test_only_what_programs_native_code_or_the_host_do_is_not_counted():
    unknown = {p.traits.kind for p in registry.values() if p.traits.flops is None}
    assert unknown <= {"control", "custom", "host"}
