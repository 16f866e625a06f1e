/** What kind of work a primitive does; views colour by it. */

export type Family =
  | 'contraction'
  | 'elementwise'
  | 'reduction'
  | 'movement'
  | 'indexing'
  | 'control'
  | 'collective'
  | 'random'
  | 'creation'
  | 'host';

export const FAMILIES: readonly Family[] = [
  'contraction',
  'elementwise',
  'reduction',
  'movement',
  'indexing',
  'control',
  'collective',
  'random',
  'creation',
  'host',
];

const MEMBERS: Readonly<Record<Exclude<Family, 'elementwise'>, string>> = {
  contraction:
    'dot_general dot ragged_dot ragged_dot_general convolution conv_general_dilated cholesky qr ' +
    'householder_product lu lu_pivots_to_permutation svd eig eigh schur hessenberg ' +
    'triangular_solve tridiagonal_solve tridiagonal fft einsum geqrf',
  reduction:
    'reduce reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor ' +
    'reduce_precision argmax argmin cumsum cumprod cummax cummin cumlogsumexp reduce_window ' +
    'reduce_window_sum reduce_window_max reduce_window_min select_and_scatter ' +
    'select_and_scatter_add sort top_k approx_top_k',
  movement:
    'reshape transpose broadcast_in_dim broadcast dynamic_broadcast_in_dim squeeze expand_dims ' +
    'rev reverse concatenate split pad slice copy copy_p bitcast bitcast_convert ' +
    'bitcast_convert_type convert convert_element_type tuple get_tuple_element device_put ' +
    'optimization_barrier stop_gradient copy_start copy_done',
  indexing:
    'gather scatter scatter_add scatter_sub scatter_mul scatter_min scatter_max dynamic_slice ' +
    'dynamic_update_slice dynamic_gather get swap addupdate',
  control:
    'jit pjit xla_call core_call closed_call core_closed_call call func_call scan while cond case ' +
    'if conditional switch checkpoint remat remat2 custom_jvp_call custom_vjp_call ' +
    'custom_vjp_call_jaxpr custom_lin shard_map xla_pmap fusion map run_state for composite ' +
    'linear_solve custom_linear_solve async_start async_done',
  collective:
    'psum psum2 psum_invariant pmax pmin pmean ppermute pbroadcast pvary all_gather ' +
    'all_gather_invariant all_to_all reduce_scatter psum_scatter all_reduce collective_permute ' +
    'collective_broadcast axis_index reshard sharding_constraint ragged_all_to_all ' +
    'all_gather_start all_gather_done all_reduce_start all_reduce_done partition_id replica_id',
  random:
    'random_bits random_seed random_split random_fold_in random_wrap random_unwrap random_gamma ' +
    'threefry2x32 philox rng rng_bit_generator rng_uniform',
  creation: 'iota full constant constant_folded parameter empty empty2 broadcasted_iota',
  host:
    'debug_callback debug_print pure_callback io_callback outside_call infeed outfeed ' +
    'custom_call ffi_call send recv print after_all create_token',
};

const FAMILY_OF = new Map<string, Family>(
  Object.entries(MEMBERS).flatMap(([family, names]) =>
    names.split(' ').map((name): [string, Family] => [name, family as Family]),
  ),
);

/** Family of a jaxpr primitive, a StableHLO operation or an HLO opcode. */
export function familyOf(primitive: string): Family {
  const name = primitive.slice(primitive.lastIndexOf('.') + 1).replaceAll('-', '_');
  return FAMILY_OF.get(name) ?? 'elementwise';
}
