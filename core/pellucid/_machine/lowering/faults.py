"""Workarounds for faults of XLA: one table, with the effect and the tests of each fault.

Lowering rules call `ctx.has_fault(FAULT)`, `ctx.whole_along` or `ctx.in_even_parts`. `python tools/xla_faults.py NAME`
runs a fault's tests without its workaround: if they pass, the row and its uses can be removed.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, NamedTuple

Scope = Literal["all programs", "several devices", "cut operations"]
"""Programs affected by a fault. "cut operations": programs of several devices in which not all mesh axes are manual."""


class Fault(NamedTuple):
    """A fault of XLA."""

    name: str
    scope: Scope
    is_of_cpus: bool
    """Whether only the CPU platform has it."""
    effect: str
    evidence: str
    """Pytest arguments that select the tests which fail without the workaround."""


FAULTS: dict[str, Fault] = {}
"""All faults by name."""
_suspended: set[str] = set()

_FAULTS_TEST = "tests/core/compilation/test_partitioner_faults.py -k "
_LAW = "tests/laws/test_sharding.py -k "


def _fault(
    name: str,
    effect: str,
    evidence: str,
    scope: Scope = "several devices",
    *,
    is_of_cpus: bool = False,
) -> Fault:
    return FAULTS.setdefault(name, Fault(name, scope, is_of_cpus, effect, evidence))


# The partitioner -------------------------------------------------------------------------------------

UNEVEN_GATHER = _fault(
    "uneven-gather", "Where no mesh axis splits a dimension of a gather evenly, padding of parts is taken for values.", _LAW + "gather",
)  # fmt: skip
UNEVEN_SCATTER = _fault(
    "uneven-scatter", "Padding of uneven parts of indices and updates is scattered.", _LAW + "scatter",
)  # fmt: skip
CUT_INDEX_VECTORS = _fault(
    "cut-index-vectors", "Gathers and scatters whose index vectors are cut fail.", _LAW + "'gather or scatter'",
)  # fmt: skip
SCATTER_OF_ONE_WINDOW = _fault(
    "scatter-of-one-window", "A scatter of one window becomes slices, which are merged with a slice that is the operand as if both were inside.",
    _FAULTS_TEST + "written", "all programs",
)  # fmt: skip
UNEVEN_TOP_K = _fault(
    "uneven-top-k",
    "Padding of uneven parts is among the greatest.",
    _LAW + "top_k",
)
UNEVEN_FFT = _fault(
    "uneven-fft", "A transform in uneven parts, or along a dimension whose parts can't be cut once more into as many, ends the process.",
    _FAULTS_TEST + "transform",
)  # fmt: skip
ERF_AS_CALL = _fault(
    "erf-as-call", "`erf` is a call before Shardy runs, through which no sharding passes: its operand is gathered whole.",
    _FAULTS_TEST + "error_function", "cut operations",
)  # fmt: skip
UNEVEN_ROUNDED_PRODUCT = _fault(
    "uneven-rounded-product", "Padding of uneven parts is summed where products of floating numbers are integers.", _LAW + "dot_general",
)  # fmt: skip
NEGATIVE_PADDING = _fault(
    "negative-padding", "`pad` and convolutions with negative padding end the process.",
    _LAW + "'pad or conv'",
)  # fmt: skip
CUT_POSITIONS = _fault(
    "cut-positions", "Convolutions whose positions are cut are wrong but for whole kernels, in even parts, without holes.",
    _FAULTS_TEST + "positions_are_cut",
)  # fmt: skip
CUT_GROUPS = _fault(
    "cut-groups", "Convolutions with groups of examples end the process in uneven parts, and sum cut features wrongly over meshes of "
    "several axes.", _FAULTS_TEST + "groups",
)  # fmt: skip
BITS_OF_PARTS = _fault(
    "bits-of-parts",
    "CPUs can't combine bits, exclusive ors and complex extremes of parts.", _LAW + "reduce_", is_of_cpus=True,
)  # fmt: skip
EXTREMES_WITHOUT_NAN = _fault(
    "extremes-without-nan",
    "CPUs combine extremes of floating numbers without their NaN.", _FAULTS_TEST + "extremes", "cut operations",
    is_of_cpus=True,
)  # fmt: skip
STRETCHED_ADDENDS = _fault(
    "stretched-addends", "A broadcast that stretches dimensions becomes two, between which addends are summed.", _FAULTS_TEST + "addends",
)  # fmt: skip

SUMMED_COMPLEX_CONSTANT = _fault(
    "summed-complex-constant", "A sum of a complex constant over devices ends the process.",
    "tests/core/parallel/test_shard_map.py -k complex_constants",
)  # fmt: skip

# The compiler ---------------------------------------------------------------------------------------

SIGNED_LEADING_ZEROS = _fault(
    "signed-leading-zeros", "Leading zeros of a negative constant are counted as of its 64-bit form, less the bits that this has more.",
    "tests/core/lowering/test_faults.py -k leading_zeros", "all programs",
)  # fmt: skip

MERGED_WINDOWS = _fault(
    "merged-windows", "Slices of slices, and updates of parts of them, at computed positions are merged as if all positions were inside (`slices.py`).",
    "tests/core/lowering/test_slices.py -k windows", "all programs",
)  # fmt: skip

LOST_FACTOR = _fault(
    "lost-factor", "An element of a slice times a constant, of 32-bit integers, is that of the slice (`slices.py`).",
    "tests/core/lowering/test_slices.py -k products", "all programs",
)  # fmt: skip

LOG1P_IN_THE_MIDDLE = _fault(
    "log1p-in-the-middle", "`log_plus_one` of float64 between √2/2 - 1 and 1 - √2 is off by 120 units in the last place.",
    "tests/core/lowering/test_faults.py -k log1p", "all programs",
)  # fmt: skip

# The compiler for GPUs ------------------------------------------------------------------------------

SCALED_DOT_IN_PARTS = _fault(
    "scaled-dot-in-parts", "Programs of several GPUs with the composite `xla.scaled_dot` aren't compiled: the partitioner has no StableHLO for it.",
    "tests/core/nn/test_scaled_products.py -k compilation_for_gpus",
)  # fmt: skip

# The compiler for CPUs ------------------------------------------------------------------------------

UPDATE_READS_ITSELF = _fault(
    "update-reads-itself",
    "An update that reads its array writes in place before it has read, where a reshape is near (`in_place.py`).",
    "tests/core/lowering/test_in_place.py", "all programs", is_of_cpus=True,
)  # fmt: skip
LARGE_EXTREMES_WITHOUT_NAN = _fault(
    "large-extremes-without-nan", "Maxima and minima of some thousand floating numbers lose NaN: a library for CPUs takes those it recognizes.",
    "tests/core/lowering/test_faults.py -k large_extremes", "all programs", is_of_cpus=True,
)  # fmt: skip
MIXED_PADDING = _fault(
    "mixed-padding", "Convolutions over two dimensions, one of which is cut before and padded behind, read other elements.",
    "tests/core/lowering/test_faults.py -k padding_of_both_signs", "all programs", is_of_cpus=True,
)  # fmt: skip
CLAMP_OF_BOOLEANS = _fault(
    "clamp-of-booleans", "A clamp of booleans that the simplifier left, or never saw, has no machine code.",
    "tests/core/lowering/test_faults.py -k clamp", "all programs", is_of_cpus=True,
)  # fmt: skip
CONTRACTED_SHIFT = _fault(
    "contracted-shift", "The difference of a product and its maximum is the product's rounding error, not 0, where it is greatest (`exact.py`).",
    "tests/core/lowering/test_exact.py -k shift", "all programs", is_of_cpus=True,
)  # fmt: skip
SUMMED_PRODUCT = _fault(
    "summed-product", "A sum of a product of matrices along rows that have few elements, with more than 128 KiB of results, has some of "
    "them at other places: a library for CPUs takes both as one (`summed_products.py`; jax-ml/jax 39103).",
    "tests/core/lowering/test_summed_products.py", "all programs", is_of_cpus=True,
)  # fmt: skip


@contextmanager
def without_workaround(name: str) -> Generator[None]:
    """Context manager that lowers programs without the workaround of fault `name`; cached executables stay as they are."""
    _suspended.add(FAULTS[name].name)
    try:
        yield
    finally:
        _suspended.discard(name)


def is_suspended(fault: Fault) -> bool:
    """Whether the workaround of `fault` is disabled."""
    return fault.name in _suspended
