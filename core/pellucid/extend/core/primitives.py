"""Primitives under the names of `jax.extend.core.primitives`."""

from pellucid.higher_order.calls import closed_call_p
from pellucid.higher_order.cond import cond_p
from pellucid.higher_order.custom_jvp import custom_jvp_call_p
from pellucid.higher_order.custom_vjp import custom_lin_p, custom_vjp_call_p
from pellucid.higher_order.jit import jit_p
from pellucid.higher_order.linear_solve import linear_solve_p
from pellucid.higher_order.reduce import reduce_p, reduce_window_p
from pellucid.higher_order.remat import remat_p
from pellucid.higher_order.remat_policies import name_p
from pellucid.higher_order.scan import scan_p
from pellucid.higher_order.while_loop import while_p
from pellucid.parallel.axes import axis_index_p
from pellucid.parallel.exchange import all_to_all_p, ppermute_p
from pellucid.parallel.gathering import all_gather_p
from pellucid.parallel.ragged_exchange import ragged_all_to_all_p
from pellucid.parallel.reductions import pmax_p, pmin_p, psum_p
from pellucid.primitives.arithmetic import (
    abs_p,
    add_p,
    cbrt_p,
    ceil_p,
    div_p,
    floor_p,
    integer_pow_p,
    log_p,
    max_p,
    min_p,
    mul_p,
    neg_p,
    nextafter_p,
    pow_p,
    rem_p,
    round_p,
    rsqrt_p,
    sign_p,
    sqrt_p,
    square_p,
    sub_p,
)
from pellucid.primitives.broadcasting import broadcast_in_dim_p, reduce_sum_p, squeeze_p
from pellucid.primitives.complex_parts import complex_p, conj_p, imag_p, real_p
from pellucid.primitives.concatenation import concatenate_p
from pellucid.primitives.contraction import dot_general_p
from pellucid.primitives.conversion import (
    bitcast_convert_type_p,
    convert_element_type_p,
    copy_p,
    reduce_precision_p,
    stop_gradient_p,
)
from pellucid.primitives.convolution import conv_general_dilated_p
from pellucid.primitives.creation import iota_p
from pellucid.primitives.cumulative import cumlogsumexp_p, cummax_p, cummin_p, cumprod_p, cumsum_p
from pellucid.primitives.families import add_any_p as add_jaxvals_p
from pellucid.primitives.fourier import fft_p
from pellucid.primitives.gamma import digamma_p, lgamma_p, polygamma_p, zeta_p
from pellucid.primitives.gather import gather_p, scatter_add_p
from pellucid.primitives.logical import (
    and_p,
    clamp_p,
    clz_p,
    eq_p,
    eq_to_p,
    ge_p,
    gt_p,
    is_finite_p,
    le_p,
    le_to_p,
    lt_p,
    lt_to_p,
    ne_p,
    not_p,
    or_p,
    population_count_p,
    select_n_p,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
    xor_p,
)
from pellucid.primitives.movement import reshape_p, rev_p, transpose_p
from pellucid.primitives.padding import pad_p, slice_p
from pellucid.primitives.placement import device_put_p
from pellucid.primitives.random_bits import rng_bit_generator_p, rng_uniform_p, threefry2x32_p
from pellucid.primitives.reduction import (
    argmax_p,
    argmin_p,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_xor_p,
)
from pellucid.primitives.scatter import scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p
from pellucid.primitives.slicing import dynamic_slice_p, dynamic_update_slice_p
from pellucid.primitives.sorting import approx_top_k_p, sort_p, top_k_p
from pellucid.primitives.special import (
    bessel_i0e_p,
    bessel_i1e_p,
    erf_inv_p,
    erf_p,
    erfc_p,
    igamma_grad_a_p,
    igamma_p,
    igammac_p,
    regularized_incomplete_beta_p,
)
from pellucid.primitives.staging import after_all_p, create_token_p
from pellucid.primitives.transcendental import (
    acos_p,
    acosh_p,
    asin_p,
    asinh_p,
    atan2_p,
    atan_p,
    atanh_p,
    cos_p,
    cosh_p,
    exp2_p,
    exp_p,
    expm1_p,
    log1p_p,
    logistic_p,
    sin_p,
    sinh_p,
    tan_p,
    tanh_p,
)
from pellucid.primitives.windows import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)

__all__ = [
    "all_gather_p", "all_to_all_p", "axis_index_p", "pmax_p", "pmin_p", "ppermute_p", "psum_p",
    "ragged_all_to_all_p",
    "abs_p", "acos_p", "acosh_p", "add_jaxvals_p", "add_p", "and_p", "approx_top_k_p",
    "argmax_p", "argmin_p", "asin_p", "asinh_p", "atan2_p", "atan_p", "atanh_p", "bessel_i0e_p",
    "bessel_i1e_p", "bitcast_convert_type_p", "broadcast_in_dim_p", "cbrt_p", "ceil_p",
    "after_all_p", "create_token_p", "clamp_p", "closed_call_p", "clz_p", "complex_p", "concatenate_p", "cond_p", "conj_p",
    "conv_general_dilated_p", "convert_element_type_p", "copy_p", "cos_p", "cosh_p",
    "cumlogsumexp_p", "cummax_p", "cummin_p", "cumprod_p", "cumsum_p", "custom_jvp_call_p",
    "custom_lin_p", "custom_vjp_call_p", "device_put_p", "digamma_p", "div_p", "dot_general_p",
    "dynamic_slice_p", "dynamic_update_slice_p", "eq_p", "eq_to_p", "erf_inv_p", "erf_p",
    "erfc_p", "exp2_p", "exp_p", "expm1_p", "fft_p", "floor_p", "gather_p", "ge_p", "gt_p",
    "igamma_grad_a_p", "igamma_p", "igammac_p", "imag_p", "integer_pow_p", "iota_p",
    "is_finite_p", "jit_p", "le_p", "le_to_p", "lgamma_p", "linear_solve_p", "log1p_p", "log_p",
    "logistic_p", "lt_p", "lt_to_p", "max_p", "min_p", "mul_p", "name_p", "ne_p", "neg_p",
    "nextafter_p", "not_p", "or_p", "pad_p", "polygamma_p", "population_count_p", "pow_p",
    "real_p", "reduce_and_p", "reduce_max_p", "reduce_min_p", "reduce_or_p", "reduce_p",
    "reduce_precision_p", "reduce_prod_p", "reduce_sum_p", "reduce_window_max_p",
    "reduce_window_min_p", "reduce_window_p", "reduce_window_sum_p", "reduce_xor_p",
    "regularized_incomplete_beta_p", "rem_p", "remat_p", "reshape_p", "rev_p",
    "rng_bit_generator_p", "rng_uniform_p", "round_p", "rsqrt_p", "scan_p", "scatter_add_p",
    "scatter_max_p", "scatter_min_p", "scatter_mul_p", "scatter_p", "select_and_gather_add_p",
    "select_and_scatter_add_p", "select_n_p", "shift_left_p", "shift_right_arithmetic_p",
    "shift_right_logical_p", "sign_p", "sin_p", "sinh_p", "slice_p", "sort_p", "sqrt_p",
    "square_p", "squeeze_p", "stop_gradient_p", "sub_p", "tan_p", "tanh_p", "threefry2x32_p",
    "top_k_p", "transpose_p", "while_p", "xor_p", "zeta_p",
]  # fmt: skip
