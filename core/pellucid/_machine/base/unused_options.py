"""Options of the reference that are accepted without effect, and its environment variables that aren't options."""

from __future__ import annotations

from typing import Any

UNUSED_OPTIONS: dict[str, Any] = {
    # Choices of partitioner, tracer or rules, of which pellucid has only one.
    "custom_vjp3": False,
    "disable_vmap_shmap_error": False, "disallow_mesh_context_manager": False, "eager_constant_folding": False,
    "mutable_array_checks": True, "refs_to_pins": False, "remat3": False, "scan3": False,
    "use_direct_linearize": True, "use_emit_pipeline_primitive": False, "use_simplified_jaxpr_constants": False,
    "check_vma": False, "jax2tf_associative_scan_reductions": False, "jax2tf_default_native_serialization": True,
    # Errors as values: pellucid has checkify.
    "error_checking_behavior_divide": "ignore", "error_checking_behavior_nan": "ignore",
    "error_checking_behavior_oob": "ignore",
    # Texts, locations and messages, which are controlled where they are displayed.
    "debug_log_modules": "", "hlo_source_file_canonicalization_regex": None, "include_debug_info_in_dumps": True,
    "include_full_tracebacks_in_locations": True, "log_checkpoint_residuals": False, "pprint_use_color": True,
    "captured_constants_report_frames": 0, "compiler_detailed_logging_min_ops": 10,
    "send_traceback_to_runtime": "off", "source_url_schema": None, "traceback_in_locations_limit": 100,
    "tracer_error_num_traceback_frames": 5,
    # Files: the cache, exported programs and profile-guided compilation.
    "compilation_cache_check_contents": False, "compilation_cache_expect_pgle": False, "embedded_constants_max_bytes": 32,
    "enable_pgle": False, "export_calling_convention_version": 10, "export_ignore_forward_compatibility": False,
    "persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir", "pgle_aggregation_percentile": 90,
    "pgle_profiling_runs": 3, "remove_custom_partitioning_ptr_from_cache_key": False, "serialization_version": 0,
    "share_binary_between_hosts": False, "share_binary_between_hosts_timeout_ms": 1200000, "xla_profile_version": 0,
    # Jobs and platforms.
    "backend_target": "", "check_proxy_envs": True, "compiler_enable_remat_pass": True,
    "cpu_get_global_topology_timeout_minutes": 5, "cpu_get_local_topology_timeout_minutes": 2,
    "cross_host_transfer_socket_address": "", "cross_host_transfer_timeout_seconds": None,
    "cross_host_transfer_transfer_size": None, "cross_host_transport_addresses": "",
    "debug_leaked_clients_on_clear_backends": False, "distributed_debug": False,
    "experimental_unsafe_xla_runtime_errors": False, "force_dcn_cross_host_transfers": False, "mock_gpu_topology": "",
    "mock_num_gpu_processes": 0, "oneapi_visible_devices": "all", "rocm_visible_devices": "all",
    "sort_devices_by_process_index": True, "xla_backend": "",
    # Kernels of the reference.
    "bcoo_cusparse_lowering": False, "mosaic_allow_hlo": False,
    "pallas_poison_buffers": False, "pallas_use_mosaic_gpu": True, "pallas_verbose_errors": False,
    "ragged_dot_use_gpu_pallas_triton_lowering": False, "ragged_dot_use_ragged_dot_instruction": True,
    "threefry_gpu_kernel_lowering": False, "use_magma": "auto",
}  # fmt: skip
"""The reference's default for each name without `jax_`. Other values cause a warning."""

OTHER_VARIABLES = frozenset(
    {
        "JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_BIND_ADDRESS", "JAX_COORDINATOR_PORT", "JAX_LOCAL_DEVICE_IDS",
        "JAX_NUM_PROCESSES", "JAX_PARTITION_INDEX", "JAX_PLATFORM_NAME", "JAX_PORT", "JAX_PROCESS_ID", "JAX_SLICE_INDEX",
    }
)  # fmt: skip
"""Environment variables starting with JAX_ that aren't options; they belong to multi-process jobs."""
