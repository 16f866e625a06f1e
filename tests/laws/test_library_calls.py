"""Calls of the library work in every way in which the reference makes them: its own arithmetic is reached by no option.

What a function makes for itself (starts of loops, indices, constants) takes after its operands: it varies over manual
mesh axes, is laid out over Explicit ones, and has symbolic sizes as they do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import pytest
from corpus import eager_library_calls, library_calls as corpus
from everywhere import parts, report

import pellucid

SHARES = 6
"""Parts in which calls under options are evaluated, all of them in each run."""
PARTS = 8
"""Parts of the other ways, of which a run takes one."""
UNDER_OPTIONS = ("plain", "strict", "one rank")
CALLS = corpus.all_calls()

MISTAKES = (
    r"jax\.random\.(gamma|normal)\(.*(-1\.0j|\(-1,\))|random\.(key|bits|split)\(|stats\.norm\.logpdf\(1j"
    r"|special\.multigammaln\(3\.0, 2\.5|transform\.Rotation\.from_quat\(jnp\.ones\(3"
)
OTHERWISE: dict[tuple[str, str], str] = {
    (".*", MISTAKES): "mistakes are errors",
    (".*", r"jnp\.(nan)?var\(x, dtype='int16'\)"): "an integer dtype of variances is an error",
    ("(gradient, )?one rank", r"jnp\.heaviside\(x, y\)"): "the ranks of its operands are checked, as of all functions of two",
    ("transfer_guard", r"jnp\.(signbit\(True\)|take_along_axis\(x, y\[None)"): "a number that users give is an operand; an index of zero, too",
    ("constants", r"jsp\.interpolate\.RegularGridInterpolator"): "points that don't ascend are an error where they are known",
    ("debug_nans", r"stats\.norm\.cdf\(jnp\.array\(\[1, 2\]\), loc=1"): "of a negative scale it is NaN, as SciPy's",
    ("disable_jit", r"stats\.mode\("): "a scan of no steps has results of no known type while jit is off",
    ("disable_jit", r"jsp\.interpolate\.RegularGridInterpolator"): "points that don't ascend are an error where they are known",
    ("explicit", r"jnp\.fft\.|jnp\.trace\("): "a dimension along which it works must not be sharded: gather it first",
    ("explicit", r"jnp\.pad\(x, 8, 'wrap'\)"): "elements are chosen along a sharded dimension: gather it first",
    ("explicit", r"jnp\.polyint\(x, 2, jnp\.array"): "constants are joined to coefficients, whose layout they must have",
    ("explicit", r"jsp\.optimize\.minimize\("): "sums over devices are stated, here those of products of sharded vectors",
    ("symbolic", r".*\bx(\.at)?\[[1-9]"): "whether an index is within a symbolic dimension must be known: state a constraint",
    ("symbolic", r"jnp\.reshape\(x, (24|\(2, 3, 4\))"): "a symbolic number of elements doesn't fit a static shape",
    ("symbolic", r"jnp\.tril_indices_from\("): "how many elements a triangle has, no shape can say",
    ("symbolic", r"jnp\.linalg\.(svd|norm)\(|jsp\.linalg\.(svd|lu_factor)\("): "whether there are more rows than columns must be known: state a constraint",
}  # fmt: skip
"""(Ways, calls), as patterns, in which a call works in the reference only, and why."""

UNCHECKED: dict[tuple[str, str], str] = {
    ("strict", r"nn\.\w+\((whole|q\.)|special\.log_softmax\(1\)|(jsp\.)?special\.(sph_harm_y|hyp1f1)\("): "a function's own numbers take the dtype of its operand",
    ("strict", r"ndimage\.map_coordinates\(|signal\.csd\("): "indices and weights that it makes are its own",
    ("strict", r"transform\.Rotation\.|linalg\.cg\("): "what an operator is applied to is converted for it",
    ("one rank", r"random\.(truncated_normal|randint|bernoulli)\("): "parameters are repeated to the shape that is asked for",
    ("one rank", r"integrate\.trapezoid\(.*x=|jsp\.stats\.(poisson\.entropy|multivariate_normal\.logpdf)\("): "a vector along the axis, and the mean of a batch, are what the function asks for",
}  # fmt: skip
"""(Ways, calls), as patterns, in which a call works here only, although an option is about it, and why."""


@functools.cache
def library() -> corpus.Library:
    return corpus.Library(pellucid)


def is_listed(table: dict[tuple[str, str], str], way: str, call: corpus.Call) -> bool:
    return any(re.fullmatch(ways, way) and re.match(pattern, str(call)) for ways, pattern in table)


def traced_by(function, operands: tuple, traced: tuple[int, ...]) -> None:
    """Trace `function` by the operands at `traced`; the others are NumPy arrays."""

    def of_traced(*values):
        every = list(operands)
        for i, value in zip(traced, values, strict=True):
            every[i] = value
        return function(*every)

    types = [pellucid.ShapeDtypeStruct(operands[i].shape, operands[i].dtype) for i in traced]
    pellucid.eval_shape(of_traced, *types)


def check(oracle, calls: list[corpus.Call], ways: Iterable[str]) -> None:
    """Fail for calls that work in one of `ways` in the reference only, or under an option here only."""
    theirs = oracle.call_each(corpus.answers, [tuple(call) for call in calls])
    differences = []
    for call, works_there in zip(calls, theirs, strict=True):
        for way, error in corpus.failures(library(), call, ways).items():
            is_checked_there = (
                way in ("strict", "one rank") and "plain" in works_there and way not in works_there
            )
            if error is not None and way in works_there and not is_listed(OTHERWISE, way, call):
                differences.append(f"{way}: {call}\n    {type(error).__name__}: {error}")
            elif error is None and is_checked_there and not is_listed(UNCHECKED, way, call):
                differences.append(f"{way}: {call}\n    works here only")
    report(differences)


@pytest.mark.parametrize("share", range(SHARES))
def test_calls_work_under_options_as_in_the_reference(oracle_8_devices, share: int) -> None:
    check(oracle_8_devices, CALLS[share::SHARES], UNDER_OPTIONS)


@pytest.mark.parametrize("part", parts(PARTS))
def test_calls_compute_under_options_as_in_the_reference(oracle_8_devices, part: int) -> None:
    firsts = {call.text.partition("(")[0]: call for call in reversed(CALLS)}  # of each function
    calls = [*firsts.values()][part::PARTS]
    theirs = oracle_8_devices.call_each(
        eager_library_calls.answers, [tuple(call) for call in calls]
    )
    report(
        [
            f"{option}: {call}\n    {type(error).__name__}: {error}"
            for call, works_there in zip(calls, theirs, strict=True)
            for option, error in eager_library_calls.failures(library(), call).items()
            if error is not None
            and option in works_there
            and not is_listed(OTHERWISE, option, call)
        ]
    )


@pytest.mark.parametrize("part", parts(PARTS))
def test_calls_work_in_every_way_as_in_the_reference(oracle_8_devices, part: int) -> None:
    calls = [call for call in CALLS if call.operands][part::PARTS]
    check(oracle_8_devices, calls, [way for way in corpus.WAYS if way not in UNDER_OPTIONS])


@pytest.mark.parametrize("part", parts(PARTS))
def test_calls_take_constants_of_numpy_within_programs(part: int) -> None:
    """What takes a traced operand takes one of NumPy in its place, beside others that are traced and alone."""
    differences = []
    functions = ("jnp.", "lax.", "jsp.", "jax.")  # methods and operators are NumPy's
    calls = [call for call in CALLS if call.operands and call.text.startswith(functions)]
    for call in calls[part::PARTS]:
        if corpus.failures(library(), call, ["plain"])["plain"] is not None:
            continue
        function = library().function(call)
        for traced in {(), *((i,) for i in range(len(call.operands)))}:
            try:
                traced_by(function, call.operands, traced)
            except Exception as error:
                if not is_listed(OTHERWISE, "constants", call):
                    differences.append(f"{traced}: {call}\n    {type(error).__name__}: {error}")
    report(differences)


def test_there_are_many_calls() -> None:
    assert len(CALLS) > 2000
    assert sum(bool(call.operands) for call in CALLS) > 1000
