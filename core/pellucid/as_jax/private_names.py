"""The table of private names: maps `jax._src.MODULE.NAME` to an object of pellucid.

A name of a module is looked up among its `OBJECTS`, then in the public modules of `SOURCES`, where it means what it does in
the reference; objects that have no public form are in `own`. What can't be served is in `REFUSED`, with what to use.
"""

from __future__ import annotations


def _rows(text: str) -> dict[str, tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = {}
    for line in text.strip().splitlines():
        names, _, sources = line.strip().partition(":")
        for name in names.split():
            rows[name] = tuple("" if s == "." else s for s in sources.split())
    return rows


SOURCES = _rows(
    """
    abstract_arrays: core
    ad_checkpoint: ad_checkpoint .
    ad_util: interpreters.ad lax
    api: . api_util core tree_util sharding extend.backend
    api_util: api_util
    array basearray: . typing
    buffer_callback: experimental.buffer_callback
    callback: . experimental
    checkify: experimental.checkify
    compilation_cache: experimental.compilation_cache.compilation_cache
    compiler:
    compute_on: experimental.compute_on
    config: .
    core: core extend.core ref errors .
    cudnn:
    cudnn.fused_attention_stablehlo cudnn.fusion: experimental.cudnn
    cudnn.scaled_matmul_stablehlo: nn
    custom_batching: custom_batching
    custom_derivatives: custom_derivatives . tree_util errors
    custom_partitioning: experimental.custom_partitioning
    debugging: debug
    dispatch: interpreters.xla
    distributed: distributed
    dlpack: dlpack
    dtypes: dtypes numpy .
    earray: experimental
    effects: core extend.core
    environment_info: .
    errors: errors
    export export._export export.shape_poly: export
    ffi: ffi
    flatten_util: flatten_util
    hijax: experimental.hijax
    image image.scale: image
    interpreters:
    interpreters.ad: interpreters.ad
    interpreters.batching: interpreters.batching
    interpreters.mlir: interpreters.mlir
    interpreters.partial_eval: interpreters.partial_eval
    interpreters.pxla: interpreters.pxla
    interpreters.xla: interpreters.xla
    lax lax.lax lax.ann lax.convolution lax.fft lax.other lax.parallel lax.slicing lax.special lax.utils: lax
    lax.windowed_reductions lax.control_flow lax.control_flow.common lax.control_flow.conditionals: lax
    lax.control_flow.loops lax.control_flow.solves: lax
    lax.linalg: lax.linalg
    layout: experimental.layout
    lib: extend.mlir
    linear_util: extend.linear_util
    literals:
    mesh: sharding interpreters.pxla
    mesh_utils: experimental.mesh_utils
    monitoring: monitoring
    named_sharding partition_spec sharding: sharding
    nn nn.functions: nn
    nn.initializers: nn.initializers
    numpy numpy.array_constructors numpy.array_creation numpy.array_methods numpy.einsum numpy.index_tricks: numpy
    numpy.indexing numpy.lax_numpy numpy.polynomial numpy.reductions numpy.scalar_types numpy.setops: numpy
    numpy.sorting numpy.tensor_contractions numpy.ufunc_api numpy.ufuncs numpy.vectorize numpy.window_functions: numpy
    numpy.fft: numpy.fft
    numpy.linalg: numpy.linalg
    numpy.util: numpy
    ops ops.scatter: ops
    ops.special: nn scipy.special
    pjit: . experimental.pjit sharding api_util extend.sharding tree_util lax
    pmap: .
    pretty_printer:
    prng: extend.random random
    profiler: profiler
    public_test_util test_util: test_util
    random random.core random.prng: random extend.random
    random.philox2x32 random.philox4x32 random.rbg random.threefry2x32 random.threefry4x32:
    ref: ref .
    scipy: scipy
    scipy.cluster.vq: scipy.cluster.vq
    scipy.fft: scipy.fft
    scipy.integrate: scipy.integrate
    scipy.linalg: scipy.linalg
    scipy.ndimage: scipy.ndimage
    scipy.optimize scipy.optimize.bfgs scipy.optimize.minimize: scipy.optimize
    scipy.signal: scipy.signal
    scipy.sparse.linalg: scipy.sparse.linalg
    scipy.spatial.transform: scipy.spatial.transform
    scipy.special: scipy.special
    scipy.stats scipy.stats._core: scipy.stats
    shard_alike: experimental.shard_alike
    shard_map: . experimental.shard_map
    sharding_impls: sharding . interpreters.pxla experimental.layout extend.sharding
    source_info_util: extend.source_info_util
    stages: stages
    state state.types state.primitives state.discharge: ref .
    traceback_util:
    tree: tree
    tree_util: tree_util
    typing: typing .
    util:
    xla_bridge: extend.backend .
    xla_metadata xla_metadata_lib: experimental.xla_metadata
    """
)
"""Modules below `jax._src`, with the public modules below `jax` whose names they have."""

OBJECTS = {
    "cudnn.fused_attention_stablehlo._normalize_layout": "pellucid.experimental.cudnn.attention._normalize_layout",
    "ad_checkpoint.remat_p": "pellucid._machine.higher_order.remat.remat_p",
    "ad_util.stop_gradient_p": "pellucid._machine.primitives.conversion.stop_gradient_p",
    "api._dtype": "pellucid.as_jax.own.dtype_of",
    "api_util.infer_argnums_and_argnames": "pellucid.as_jax.own.infer_argnums_and_argnames",
    "ad_checkpoint.DotsSaveable": "pellucid.as_jax.pickles.DotsSaveable",
    "array._reconstruct_array": "pellucid._machine.runtime.host._from_pickle",
    "array.ArrayImpl": "pellucid._machine.xla.arrays.ArrayImpl",
    "config.config": "pellucid._machine.base.config.config",
    "config.update": "pellucid._machine.base.config.config.update",
    "core.ManualAxisType": "pellucid._machine.sharding.ManualAxisType",
    "core.MemorySpace": "pellucid.memory.Space",
    "core.JaxprEqnContext": "pellucid.as_jax.own.JaxprEqnContext",
    "core.call_p": "pellucid._machine.higher_order.calls.call_p",
    "core.closed_call_p": "pellucid._machine.higher_order.calls.closed_call_p",
    "core.full_lower": "pellucid.as_jax.own.itself",
    "core.get_referent": "pellucid.as_jax.own.itself",
    "core.physical_aval": "pellucid._machine.ir.physical",
    "core.safe_map": "pellucid.api_util.safe_map",
    "core.safe_zip": "pellucid.as_jax.own.safe_zip",
    "core.trace_state_clean": "pellucid.as_jax.own.trace_state_clean",
    "dispatch.wait_for_tokens": "pellucid._machine.runtime.tokens.effects_barrier",
    "distributed.global_state": "pellucid.as_jax.own.global_state",
    "dtypes.DType": "numpy.dtype",
    "dtypes.ExtendedDType": "pellucid.extend.dtypes.ExtendedDType",
    "core.get_axis_env": "pellucid.as_jax.own.axis_environment",
    "dtypes.default_complex_dtype": "pellucid._machine.base.dtypes.default_complex_dtype",
    "dtypes.default_float_dtype": "pellucid._machine.base.dtypes.default_float_dtype",
    "dtypes.default_int_dtype": "pellucid._machine.base.dtypes.default_int_dtype",
    "dtypes.default_uint_dtype": "pellucid._machine.base.dtypes.default_uint_dtype",
    "dtypes.is_weakly_typed": "pellucid._machine.base.dtypes.is_weakly_typed",
    "dtypes.to_floating_dtype": "pellucid._machine.base.dtypes.to_floating_dtype",
    "dtypes.to_numeric_dtype": "pellucid._machine.base.dtypes.to_numeric_dtype",
    "dtypes.dtype": "pellucid.as_jax.own.dtype_of",
    "dtypes.extended": "pellucid._machine.base.dtypes.extended",
    "dtypes.supports_inf": "pellucid._machine.base.dtypes.supports_inf",
    "dtypes.to_complex_dtype": "pellucid._machine.base.dtypes.to_complex_dtype",
    "dtypes.to_inexact_dtype": "pellucid._machine.base.dtypes.to_inexact_dtype",
    "earray.EArray": "pellucid._machine.runtime.extended.ExtendedArray",
    "effects.control_flow_allowed_effects": "pellucid.experimental.hijax.types.control_flow_allowed_effects",
    "effects.lowerable_effects": "pellucid.interpreters.mlir.lowerable_effects",
    "effects.remat_allowed_effects": "pellucid.interpreters.mlir.lowerable_effects",
    "interpreters.partial_eval.DynamicJaxprTrace": "pellucid._machine.tracing.staging.StagingTrace",
    "lib.jaxlib": "jaxlib",
    "lib.jaxlib_extension_version": "jaxlib.xla_client._version",
    "lib.version": "pellucid.as_jax.own.jaxlib_numbers",
    "lib.version_str": "pellucid._machine.xla.compile.jaxlib_version",
    "lib.xla_client": "jaxlib.xla_client",
    "literals.LiteralArray": "pellucid.as_jax.own.TypedNdArray",
    "literals.TypedComplex": "pellucid.numpy.typed_numbers.TypedComplex",
    "literals.TypedFloat": "pellucid.numpy.typed_numbers.TypedFloat",
    "literals.TypedInt": "pellucid.numpy.typed_numbers.TypedInt",
    "literals.TypedNdArray": "pellucid.as_jax.own.TypedNdArray",
    "checkify.Error": "pellucid._machine.checks.errors.Error",
    "checkify.JaxException": "pellucid._machine.checks.errors.JaxException",
    "checkify.Out": "pellucid.as_jax.own.Out",
    "checkify.checkify": "pellucid._machine.checks.checkify.checkify",
    "checkify.user_checks": "pellucid._machine.checks.errors.user_checks",
    "mesh.empty_abstract_mesh": "pellucid._machine.sharding.mesh.empty_abstract_mesh",
    "mesh.empty_concrete_mesh": "pellucid._machine.sharding.mesh.empty_mesh",
    "mesh.get_concrete_mesh": "pellucid.as_jax.own.get_concrete_mesh",
    "mesh.use_abstract_mesh": "pellucid.sharding.use_abstract_mesh",
    "named_sharding._unpickle_named_sharding": "pellucid.as_jax.pickles.named_sharding",
    "numpy.util.check_arraylike": "pellucid.as_jax.own.check_arraylike",
    "numpy.util.ensure_arraylike": "pellucid.as_jax.own.ensure_arraylike",
    "numpy.util.ensure_arraylike_tuple": "pellucid.as_jax.own.ensure_arraylike_tuple",
    "numpy.util.promote_args_numeric": "pellucid.as_jax.own.promote_args_numeric",
    "numpy.util.promote_args": "pellucid.as_jax.own.promote_args",
    "numpy.util.promote_args_inexact": "pellucid.as_jax.own.promote_args_inexact",
    "numpy.util.promote_dtypes": "pellucid.as_jax.own.promote_dtypes",
    "numpy.util.promote_dtypes_complex": "pellucid.as_jax.own.promote_dtypes_complex",
    "numpy.util.promote_dtypes_inexact": "pellucid.as_jax.own.promote_dtypes_inexact",
    "numpy.util.promote_dtypes_numeric": "pellucid.as_jax.own.promote_dtypes_numeric",
    "numpy.util.promote_shapes": "pellucid.as_jax.own.promote_shapes",
    "pjit.UnspecifiedValue": "pellucid.as_jax.own.UnspecifiedValue",
    "pjit.jit_p": "pellucid._machine.higher_order.calls.jit_p",
    "pjit.mesh_lib": "jax._src.mesh",
    "pretty_printer.Doc": "pellucid.as_jax.documents.Doc",
    "pretty_printer.brk": "pellucid.as_jax.documents.brk",
    "pretty_printer.concat": "pellucid.as_jax.documents.concat",
    "pretty_printer.group": "pellucid.as_jax.documents.group",
    "pretty_printer.join": "pellucid.as_jax.documents.join",
    "pretty_printer.nest": "pellucid.as_jax.documents.nest",
    "pretty_printer.nil": "pellucid.as_jax.documents.nil",
    "pretty_printer.text": "pellucid.as_jax.documents.text",
    "prng.PRNGImpl": "pellucid.random.generators.PRNGImpl",
    "prng.KeyTy": "pellucid.as_jax.pickles.KeyTy",
    "prng.PRNGKeyArray": "pellucid.as_jax.pickles.PRNGKeyArray",
    "public_test_util.check_close": "pellucid.as_jax.own.check_close",
    "random.prng.PRNGImpl": "pellucid.random.generators.PRNGImpl",
    "random.prng.KeyTy": "pellucid.as_jax.pickles.KeyTy",
    "random.prng.PRNGKeyArray": "pellucid.as_jax.pickles.PRNGKeyArray",
    "sharding_impls.UNSPECIFIED": "pellucid.as_jax.own.UNSPECIFIED",
    "sharding_impls.UnspecifiedValue": "pellucid.as_jax.own.UnspecifiedValue",
    "sharding_impls.canonicalize_sharding": "pellucid.as_jax.own.canonicalize_sharding",
    "state.types.AbstractRef": "pellucid._machine.ir.avals.AbstractRef",
    "test_util.check_close": "pellucid.as_jax.own.check_close",
    "test_util.is_device_cuda": "pellucid.as_jax.own.is_device_cuda",
    "test_util.is_device_rocm": "pellucid.as_jax.own.is_device_rocm",
    "test_util.is_device_tpu": "pellucid.as_jax.own.is_device_tpu",
    "test_util.device_under_test": "pellucid._machine.runtime.platforms.default_platform",
    "traceback_util._exclude_paths": "pellucid.extend.source_info_util.excluded_paths",
    "traceback_util.api_boundary": "pellucid.as_jax.own.api_boundary",
    "traceback_util.include_frame": "pellucid.as_jax.own.include_frame",
    "traceback_util.register_exclusion": "pellucid.extend.source_info_util.register_exclusion",
    "tree_util._registry": "pellucid.as_jax.own.registry",
    "tree_util.default_registry": "pellucid._machine.xla.pytree.default_registry",
    "tree_util.flatten_one_level": "pellucid.as_jax.own.flatten_one_level",
    "tree_util.prefix_errors": "pellucid.as_jax.own.prefix_errors",
    "typing.Shape": "pellucid._machine.base.typing.Shape",
    "typing.DuckTypedArray": "pellucid.as_jax.own.DuckTypedArray",
    "typing.SupportsNdim": "pellucid.as_jax.own.SupportsNdim",
    "typing.SupportsShape": "pellucid.as_jax.own.SupportsShape",
    "typing.SupportsSize": "pellucid.as_jax.own.SupportsSize",
    "typing.SupportsDType": "pellucid.as_jax.own.SupportsDType",
    "util.HashableFunction": "pellucid.as_jax.own.HashableFunction",
    "util.HashablePartial": "pellucid.as_jax.own.HashablePartial",
    "util.HashableWrapper": "pellucid.as_jax.own.HashableWrapper",
    "util.ceil_of_ratio": "pellucid.as_jax.own.ceil_of_ratio",
    "util.concatenate": "pellucid.as_jax.own.concatenate",
    "util.foreach": "pellucid.as_jax.own.foreach",
    "util.fun_name": "pellucid._machine.tracing.name_of",
    "util.cache": "pellucid.as_jax.own.cache",
    "util.canonicalize_axis": "pellucid.as_jax.own.canonicalize_axis",
    "util.curry": "pellucid.as_jax.own.curry",
    "util.memoize": "pellucid.as_jax.own.memoize",
    "util.merge_lists": "pellucid.as_jax.own.merge_lists",
    "util.partition_list": "pellucid.as_jax.own.partition_list",
    "util.safe_map": "pellucid.api_util.safe_map",
    "util.safe_zip": "pellucid.as_jax.own.safe_zip",
    "util.split_list": "pellucid.as_jax.own.split_list",
    "util.set_module": "pellucid.as_jax.own.set_module",
    "util.subvals": "pellucid.as_jax.own.subvals",
    "util.tuple_insert": "pellucid.as_jax.own.tuple_insert",
    "util.tuple_delete": "pellucid.as_jax.own.tuple_delete",
    "util.tuple_update": "pellucid.as_jax.own.tuple_update",
    "util.weakref_lru_cache": "pellucid.as_jax.own.weakref_lru_cache",
    "util.unzip2": "pellucid.as_jax.own.unzip2",
    "util.unzip3": "pellucid.as_jax.own.unzip3",
    "util.wraps": "pellucid.as_jax.own.wraps",
    "xla_bridge.discover_pjrt_plugins": "pellucid.extend.plugins.discover",
    "xla_bridge.register_plugin": "pellucid.extend.plugins.register_plugin",
}
"""Names that are in no public module, with the objects that they are here."""

ADDED = {"lax.select_and_scatter_p": "pellucid.as_jax.own.select_and_scatter_p"}
"""Names below `jax` that pellucid's modules lack, with the objects that serve them."""

READ_ANEW = {
    "compiler.backend_compile_and_load": "pellucid._machine.xla.compile.compile_module",
    "xla_bridge._backends": "pellucid.as_jax.own.running_backends()",
}
"""Names whose values change; those that aren't calls may be set, which replaces the object of pellucid."""

EVERYWHERE = {
    "map": "pellucid.api_util.safe_map",
    "safe_map": "pellucid.api_util.safe_map",
    "safe_zip": "pellucid.as_jax.own.safe_zip",
    "zip": "pellucid.as_jax.own.safe_zip",
}
"""Names that many private modules have, with the objects that they are here."""

FAMILIES = {
    "config": "pellucid.as_jax.own.option",
    **dict.fromkeys(
        (
            "prng",
            "random.philox2x32",
            "random.philox4x32",
            "random.rbg",
            "random.threefry2x32",
            "random.threefry4x32",
        ),
        "pellucid.as_jax.pickles.function_of_generator",
    ),
}
"""Functions of a name that give further names of a module, or None."""

REFUSED = {
    "interpreters.partial_eval.TracingEqn": "Read `jaxpr.eqns` of a finished program.",
    "interpreters.partial_eval.custom_staging_rules": "Programs are staged in one way; `jax.make_jaxpr` and an "
    "interpreter of its equations replace a primitive.",
    "pjit.pjit_staging_rule": "Programs are staged in one way; read calls of `jit` as equations of `pjit.jit_p`.",
}
"""Names that can't be served, with what to use instead."""
