"""Names of the reference's modules of hand-written kernels, below `jax.experimental`, release 0.10.2."""

from __future__ import annotations

from itertools import pairwise

_TEXT = """
    mosaic:
    mosaic.gpu:
    pallas: ANY BlockDim BlockSpec Blocked BoundedSlice Buffered CompilerParams CostEstimate DeviceIdType Element
        GridSpec HOST Indirect MemoryRef MemorySpace RevisitMode Slice Squeezed align_to broadcast_to cdiv core_map
        debug_check debug_checks_enabled debug_print delay dot ds dslice empty empty_like empty_ref_like
        enable_debug_checks enable_poison_buffers estimate_cost get_global kernel loop lower_as_mlir multiple_of
        next_power_of_2 no_block_spec num_programs pallas_call pallas_call_p pallas_export_experimental program_id
        reciprocal run_scoped run_state select_ref semaphore semaphore_read semaphore_signal semaphore_wait squeezed
        strides_from_shape when with_scoped
    pallas.fuser: BlockIndexTransform Fusion custom_fusion evaluate fuse fusible get_fusion_values
        get_stateful_input_fusion_values get_stateful_output_fusion_values make_scalar_prefetch_handler
        pull_block_spec push_block_spec
    pallas.mosaic_gpu: ACC Barrier BlockSpec ClusterBarrier CompilerParams CopyPartition GMEM Layout
        LoweringSemantics MemorySpace Mesh NDLoopInfo OOBFillMode PeerMemRef PipelinePipeline REGS RefType RefUnion
        Replicated SMEM SemaphoreSignal SemaphoreType ShapeDtypeStruct SwizzleTransform TMEM TMEMLayout Tiling
        TilingTransform TraceScope Transform TryClusterCancelResult WGMMAAccumulatorRef WarpMesh as_torch_kernel
        async_copy_scales_to_tmem async_copy_smem_to_tmem async_copy_sparse_metadata_to_tmem async_load_tmem
        async_prefetch async_store_smem async_store_tmem atomic_add atomic_and atomic_max atomic_min atomic_or
        atomic_xor barrier_arrive barrier_test barrier_wait broadcasted_iota cluster_ref commit_smem
        commit_smem_to_gmem_group commit_tmem copy_gmem_to_smem copy_smem_to_gmem dynamic_scheduling_loop
        emit_pipeline emit_pipeline_warp_specialized find_swizzle format_tcgen05_sparse_metadata
        griddepcontrol_launch_dependents griddepcontrol_wait inline_mgpu kernel layout_cast load multicast_ref
        multimem_load_reduce multimem_store nd_loop planar_snake print_layout query_cluster_cancel remote_ref
        semaphore_signal semaphore_signal_multicast semaphore_signal_parallel semaphore_wait set_max_registers
        tcgen05_commit_arrive tcgen05_mma transform_ref transpose_ref try_cluster_cancel wait_load_tmem
        wait_smem_to_gmem warp_map wgmma wgmma_accumulator_load wgmma_wait
    pallas.ops:
    pallas.ops.gpu:
    pallas.ops.gpu.all_gather_mgpu: all_gather
    pallas.ops.gpu.attention: BlockSizes DEFAULT_MASK_VALUE mha mha_backward_kernel mha_forward_kernel mha_reference
        segment_mask
    pallas.ops.gpu.attention_mgpu: PipelineCallback T TuningConfig attention attention_reference
        attention_with_pipeline_emitter main
    pallas.ops.gpu.blackwell_matmul_mgpu: MatmulDimension TuningConfig main matmul_kernel
    pallas.ops.gpu.blackwell_ragged_dot_mgpu: TuningConfig do_matmul main ragged_dot_kernel ragged_dot_reference
        sample_group_sizes
    pallas.ops.gpu.collective_matmul_mgpu: MatmulDimension TuningConfig all_gather_lhs_matmul is_nvshmem_used
    pallas.ops.gpu.decode_attention: attn_forward_kernel decode_attn_unbatched gqa gqa_reference mha_reference mqa
        mqa_reference
    pallas.ops.gpu.hopper_matmul_mgpu: MatmulDimension TuningConfig get_num_sms kernel main matmul
    pallas.ops.gpu.hopper_mixed_type_matmul_mgpu: MatmulDimension TuningConfig main mixed_matmul_kernel reference
    pallas.ops.gpu.layer_norm: layer_norm layer_norm_backward layer_norm_backward_kernel_dw_db
        layer_norm_backward_kernel_dx layer_norm_forward layer_norm_forward_kernel layer_norm_reference
    pallas.ops.gpu.paged_attention: DEFAULT_MASK_VALUE paged_attention paged_attention_kernel
        paged_attention_reference paged_attention_unbatched
    pallas.ops.gpu.ragged_dot_mgpu: GroupInfo main ragged_dot
    pallas.ops.gpu.reduce_scatter_mgpu: reduce_scatter
    pallas.ops.gpu.rms_norm: rms_norm rms_norm_backward rms_norm_backward_kernel_dw_db rms_norm_backward_kernel_dx
        rms_norm_forward rms_norm_forward_kernel rms_norm_reference
    pallas.ops.gpu.softmax: softmax
    pallas.ops.gpu.transposed_ragged_dot_mgpu: main ref_transposed_ragged_dot transposed_ragged_dot
    pallas.ops.tpu:
    pallas.ops.tpu.all_gather: P ag_kernel all_gather get_neighbor
    pallas.ops.tpu.example_kernel: double double_kernel
    pallas.ops.tpu.flash_attention: BlockSizes DEFAULT_MASK_VALUE MIN_BLOCK_SIZE NUM_LANES NUM_SUBLANES SegmentIds
        TRANS_B_DIM_NUMBERS below_or_on_diag flash_attention mha_reference mha_reference_bwd
        mha_reference_no_custom_vjp
    pallas.ops.tpu.matmul: matmul matmul_kernel
    pallas.ops.tpu.megablox: gmm
    pallas.ops.tpu.megablox.common: assert_is_supported_dtype is_tpu select_input_dtype supports_bfloat16_matmul
        tpu_generation tpu_kind
    pallas.ops.tpu.megablox.gmm: GroupMetadata LutFn gmm make_group_metadata tgmm
    pallas.ops.tpu.megablox.ops: gmm
    pallas.ops.tpu.paged_attention: paged_attention
    pallas.ops.tpu.paged_attention.paged_attention_kernel: DEFAULT_MASK_VALUE MultiPageAsyncCopyDescriptor
        paged_attention paged_flash_attention_kernel paged_flash_attention_kernel_inline_seq_dim
    pallas.ops.tpu.paged_attention.quantization_utils: MAX_INT8 P QuantizedTensor from_int8 get_quantization_scales
        quantize_to_int8 to_int8 unquantize_from_int8
    pallas.ops.tpu.paged_attention.util: MASK_VALUE grouped_query_attention_reference
    pallas.ops.tpu.ragged_paged_attention: dynamic_validate_inputs get_tuned_block_sizes ragged_paged_attention
        ref_ragged_paged_attention static_validate_inputs
    pallas.ops.tpu.ragged_paged_attention.kernel: DEFAULT_MASK_VALUE MultiPageAsyncCopyDescriptor
        dynamic_validate_inputs get_dtype_packing get_min_heads_per_blk ragged_paged_attention
        ragged_paged_attention_kernel ref_ragged_paged_attention static_validate_inputs
    pallas.ops.tpu.ragged_paged_attention.tuned_block_sizes: MAX_PAGES_PER_SEQ TUNED_BLOCK_SIZES get_device_name
        get_min_page_size get_tpu_version get_tuned_block_sizes next_power_of_2 simplify_key
    pallas.ops.tpu.random:
    pallas.ops.tpu.random.philox: BLOCK_SIZE K_HI_32 K_LO_32 MUL_A MUL_B Shape mul32_hi_lo philox_4x32
        philox_4x32_count philox_4x32_kernel philox_fold_in philox_random_bits philox_split plphilox_prng_impl
    pallas.ops.tpu.random.prng_utils: Shape blocked_iota compute_scalar_offset round_up
    pallas.ops.tpu.random.threefry: BLOCK_SIZE Shape plthreefry_prng_impl plthreefry_random_bits threefry_2x32_count
    pallas.ops.tpu.splash_attention: BlockSizes CausalMask FullMask LocalMask Mask MultiHeadMask NumpyMask QKVLayout
        SegmentIds make_causal_mask make_local_attention_mask make_masked_mha_reference make_masked_mqa_reference
        make_random_mask make_splash_mha make_splash_mha_single_device make_splash_mqa make_splash_mqa_single_device
    pallas.ops.tpu.splash_attention.splash_attention_kernel: BlockSizes DEFAULT_MASK_VALUE MaskFunctionType
        NN_DIM_NUMBERS NT_DIM_NUMBERS NUM_LANES NUM_SUBLANES QKVLayout SegmentIds SplashAttentionKernel
        SplashCustomReturnType SplashResidualsType attention_reference attention_reference_custom
        flash_attention_kernel from_head_minor get_kernel_name make_attention_reference make_masked_mha_reference
        make_masked_mqa_reference make_splash_mha make_splash_mha_single_device make_splash_mqa
        make_splash_mqa_single_device
    pallas.ops.tpu.splash_attention.splash_attention_mask: CausalMask ChunkedCausalMask FullMask LocalMask
        LogicalAnd LogicalOr Mask MultiHeadMask NumpyMask make_causal_mask make_chunk_attention_mask
        make_local_attention_mask make_random_mask
    pallas.ops.tpu.splash_attention.splash_attention_mask_info: MaskInfo process_dynamic_mask
        process_dynamic_mask_dkv process_mask process_mask_dkv
    pallas.tpu: ARBITRARY BufferType BufferedRef BufferedRefBase CMEM CORE_PARALLEL ChipVersion CompilerParams
        CoreType DeviceIdType GridDimensionSemantics HBM HOST InterpretParams LoweringException MemorySpace PARALLEL
        PrefetchScalarGridSpec SEMAPHORE SMEM SUBCORE_PARALLEL SemaphoreType SideEffectType Tiling TpuInfo VMEM
        VMEM_SHARED async_copy async_remote_copy bitcast core_barrier create_tensorcore_mesh dma_semaphore einshape
        emit_pipeline emit_pipeline_with_allocations force_tpu_interpret_mode get_barrier_semaphore get_tpu_info
        get_tpu_info_for_chip is_tpu_device load make_async_copy make_async_remote_copy matmul_acc_lhs matmul_pop
        matmul_push_rhs pack_elementwise prng_random_bits prng_seed reset_tpu_interpret_mode_state roll
        run_on_first_core sample_block semaphore semaphore_read semaphore_signal semaphore_wait
        set_tpu_interpret_mode stateful_bernoulli stateful_bits stateful_normal stateful_uniform stochastic_round
        store sync_copy to_pallas_key touch trace_value unpack_elementwise with_memory_space_constraint
    pallas.tpu_sc: Indices PackFormat ScalarSubcoreMesh VectorSubcoreMesh addupdate addupdate_compressed
        addupdate_scatter all_reduce_ffs all_reduce_population_count bitcast cummax cumsum fetch_and_add
        get_sparse_core_info load_expanded load_gather pack parallel_loop scan_count sort_key_val store_compressed
        store_scatter subcore_barrier unpack
    pallas.triton: CompilerParams approx_tanh atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or
        atomic_xchg atomic_xor debug_barrier dot elementwise_inline_asm load max_contiguous store
"""


def _table(text: str) -> dict[str, tuple[str, ...]]:
    words = text.split()
    starts = [i for i, word in enumerate(words) if word.endswith(":")]
    return {words[i][:-1]: tuple(words[i + 1 : end]) for i, end in pairwise([*starts, len(words)])}


NAMES = _table(_TEXT)
"""The names of each module."""
