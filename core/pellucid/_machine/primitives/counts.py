"""Operation counts of primitives that need a formula; each is a `CountRule` (see `ir/traits.py`).

Counted as XLA counts: two operations for each product that is summed, one for each element that is combined with another.
"""

from __future__ import annotations

import math

from pellucid._machine.base import is_static
from pellucid._machine.ir import real_operations, size_of


def pairs(operands, results, params):
    """Number of pairs that a reduction combines: elements of the first operand minus elements of the result."""
    return max(0.0, size_of(operands[0]) - size_of(results[0]))


def combinations(operands, results, params):
    """Operations of a reduction: one for each pair of elements."""
    return pairs(operands, results, params) * real_operations(results[0])


def operand_elements(operands, results, params):
    """Operations: one for each element of the first operand."""
    return size_of(operands[0])


def update_elements(operands, results, params):
    """Operations: one for each element of the last operand, which are the updates of a scatter."""
    return size_of(operands[-1])


def window_pairs(operands, results, params):
    """Pairs that a reduction of windows combines: one for each element of each window but the first."""
    return size_of(results[0]) * max(0, math.prod(params.window_dimensions) - 1)


def window_combinations(operands, results, params):
    """Operations of a windowed reduction: one for each pair of elements."""
    return window_pairs(operands, results, params) * real_operations(results[0])


def window_comparisons(operands, results, params):
    """Operations: one for each element of each window; there is a window for each element of the first operand."""
    return size_of(operands[0]) * math.prod(params.window_dimensions)


def dot_operations(operands, results, params):
    """A product and a sum for each contracted element of each element of the result."""
    (lhs_contracting, _), _ = params.dimension_numbers
    inner = math.prod(operands[0].shape[d] for d in lhs_contracting)
    return 2.0 * size_of(results[0]) * inner * real_operations(results[0])


def ragged_dot_operations(operands, results, params):
    """Operations of a matrix product in which each row belongs to one group."""
    return 2.0 * size_of(results[0]) * operands[0].shape[-1] * real_operations(results[0])


def convolution_operations(operands, results, params):
    """A product and a sum for each element of the kernel that belongs to one output feature and meets an element.

    Padding, and the holes of a dilated operand, meet none.
    """
    lhs, kernel = operands
    lhs_spec, rhs_spec, out_spec = params.dimension_numbers
    features = kernel.shape[rhs_spec[0]]
    inner = size_of(kernel) / max(1, features)
    positions = size_of(results[0]) * inner
    dims = zip(
        lhs_spec[2:], rhs_spec[2:], out_spec[2:], params.window_strides, params.padding, params.lhs_dilation,
        params.rhs_dilation, strict=True,
    )  # fmt: skip
    for i, k, o, stride, (before, _), dilation, kernel_dilation in dims:
        sizes = n, width, n_out = lhs.shape[i], kernel.shape[k], results[0].shape[o]
        if is_static((*sizes, before)) and n_out * width:
            starts = [t * kernel_dilation - before for t in range(width)]
            met = sum(_match_count(n, n_out, start, stride, dilation) for start in starts)
            positions *= met / (n_out * width)
    return 2.0 * round(positions) * real_operations(results[0])


def _match_count(n: int, n_out: int, start: int, stride: int, dilation: int) -> int:
    """How many of the positions `start + i * stride`, i < `n_out`, coincide with one of `n` elements that are
    `dilation` apart.
    """
    common = math.gcd(stride, dilation)
    if not n or start % common:
        return 0
    # i is `first` or more by multiples of `period`, and within the bounds of the elements.
    period = dilation // common
    first = -(start // common) * pow(stride // common, -1, period) % period
    least = max(0, -(start // stride))
    most = min(n_out - 1, ((n - 1) * dilation - start) // stride)
    return max(0, (most - first) // period - (least - 1 - first) // period)


def fft_operations(operands, results, params):
    """Operations of a Fourier transform: 5 N log2 N for N complex numbers (Cooley and Tukey), half of it if one side
    is real.
    """
    n = math.prod(params.fft_lengths)
    transforms = math.prod(results[0].shape[: -len(params.fft_lengths) or None])
    is_complex = operands[0].dtype.kind == results[0].dtype.kind == "c"
    return transforms * 5.0 * n * math.log2(max(n, 1)) * (1.0 if is_complex else 0.5)


def sort_comparisons(operands, results, params):
    """N log2 N for each key."""
    n = operands[0].shape[params.dimension]
    return size_of(operands[0]) * math.log2(max(n, 2)) * params.num_keys


def top_k_comparisons(operands, results, params):
    """log2(k + 1) for each element of the operand."""
    return size_of(operands[0]) * math.log2(params.k + 1)


def power_products(operands, results, params):
    """Repeated squaring: a product for each bit of the exponent, one more for each bit that is set."""
    exponent = abs(params.y)
    products = exponent.bit_length() - 1 + exponent.bit_count() - 1 if exponent else 0
    return size_of(results[0]) * real_operations(results[0]) * (products + (params.y < 0))


THREEFRY_FLOPS = 35.0
"""Operations for each word of Threefry-2x32: 20 rounds of three operations and the key schedule, for two words."""
