from pellucid import (
    ad_checkpoint as ad_checkpoint,
    analysis as analysis,
    api_util as api_util,
    core as core,
    custom_batching as custom_batching,
    custom_derivatives as custom_derivatives,
    debug as debug,
    distributed as distributed,
    dlpack as dlpack,
    dtypes as dtypes,
    errors as errors,
    events as events,
    example_libraries as example_libraries,
    experimental as experimental,
    export as export,
    extend as extend,
    ffi as ffi,
    flatten_util as flatten_util,
    image as image,
    interpreters as interpreters,
    introspect as introspect,
    lax as lax,
    memory as memory,
    monitoring as monitoring,
    nn as nn,
    numpy as numpy,
    ops as ops,
    random as random,
    ref as ref,
    scipy as scipy,
    sharding as sharding,
    stages as stages,
    test_util as test_util,
    tree as tree,
    tree_util as tree_util,
    typing as typing,
)
from pellucid._machine.base.caching import clear_caches as clear_caches
from pellucid._machine.base.config import (
    allow_f16_reductions as allow_f16_reductions,
    array_garbage_collection_guard as array_garbage_collection_guard,
    auto_pcast as auto_pcast,
    check_tracer_leaks as check_tracer_leaks,
    check_tracer_leaks as checking_leaks,  # noqa: F401
    config as config,
    debug_infs as debug_infs,
    debug_key_reuse as debug_key_reuse,
    debug_nans as debug_nans,
    default_device as default_device,
    default_matmul_precision as default_matmul_precision,
    default_prng_impl as default_prng_impl,
    enable_checks as enable_checks,
    enable_custom_prng as enable_custom_prng,
    enable_x64 as enable_x64,
    exact_arithmetic as exact_arithmetic,
    explain_cache_misses as explain_cache_misses,
    jit_disabled as disable_jit,  # noqa: F401
    legacy_prng_key as legacy_prng_key,
    log_compiles as log_compiles,
    masked_gradients as masked_gradients,
    no_execution as no_execution,
    no_tracing as no_tracing,
    numpy_dtype_promotion as numpy_dtype_promotion,
    numpy_rank_promotion as numpy_rank_promotion,
    remove_size_one_mesh_axis_from_type as remove_size_one_mesh_axis_from_type,
    softmax_custom_jvp as softmax_custom_jvp,
    thread_guard as thread_guard,
    threefry_partitionable as threefry_partitionable,
    transfer_guard as transfer_guard,
    transfer_guard_device_to_device as transfer_guard_device_to_device,
    transfer_guard_device_to_host as transfer_guard_device_to_host,
    transfer_guard_host_to_device as transfer_guard_host_to_device,
)
from pellucid._machine.base.dtypes import float0 as float0
from pellucid._machine.base.events import Observer as Observer, observe as observe
from pellucid._machine.base.user_context import make_user_context as make_user_context
from pellucid._machine.callbacks.pure import pure_callback as pure_callback
from pellucid._machine.higher_order.custom_gradient import (
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
)
from pellucid._machine.higher_order.custom_jvp import custom_jvp as custom_jvp
from pellucid._machine.higher_order.custom_vjp import custom_vjp as custom_vjp
from pellucid._machine.higher_order.forward_backward import fwd_and_bwd as fwd_and_bwd
from pellucid._machine.higher_order.jitted import jit as jit
from pellucid._machine.higher_order.misses import explain_misses as explain_misses
from pellucid._machine.higher_order.remat import (
    checkpoint as checkpoint,
    remat as remat,
)
from pellucid._machine.higher_order.remat_policies import checkpoint_policies as checkpoint_policies
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct as ShapeDtypeStruct
from pellucid._machine.higher_order.stages import (
    eval_shape as eval_shape,
    make_jaxpr as make_jaxpr,
    typeof as typeof,
)
from pellucid._machine.parallel.pmap import pmap as pmap
from pellucid._machine.parallel.shard_map import (
    shard_map as shard_map,
    smap as smap,
)
from pellucid._machine.primitives.dslice import ds as ds
from pellucid._machine.primitives.placement import device_put as device_put
from pellucid._machine.primitives.reshard import reshard as reshard
from pellucid._machine.refs.access import (
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    new_ref as new_ref,
)
from pellucid._machine.refs.primitives import Ref as Ref
from pellucid._machine.runtime.array import Shard as Shard
from pellucid._machine.runtime.assembly import (
    make_array_from_callback as make_array_from_callback,
    make_array_from_process_local_data as make_array_from_process_local_data,
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
)
from pellucid._machine.runtime.environment import print_environment_info as print_environment_info
from pellucid._machine.runtime.memory import live_arrays as live_arrays
from pellucid._machine.runtime.platforms import (
    default_backend as default_backend,
    device_count as device_count,
    devices as devices,
    host_count as host_count,
    host_id as host_id,
    host_ids as host_ids,
    local_device_count as local_device_count,
    local_devices as local_devices,
    process_count as process_count,
    process_index as process_index,
    process_indices as process_indices,
)
from pellucid._machine.runtime.tokens import effects_barrier as effects_barrier
from pellucid._machine.runtime.transfer import (
    block_until_ready as block_until_ready,
    copy_to_host_async as copy_to_host_async,
    device_get as device_get,
    device_put_replicated as device_put_replicated,
    device_put_sharded as device_put_sharded,
)
from pellucid._machine.sharding.topology import make_mesh as make_mesh
from pellucid._machine.tracing.current import (
    ensure_compile_time_eval as ensure_compile_time_eval,
    named_call as named_call,
    named_scope as named_scope,
)
from pellucid._machine.transforms.gradient import (
    grad as grad,
    linear_transpose as linear_transpose,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from pellucid._machine.transforms.jacobians import (
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
)
from pellucid._machine.transforms.jvp import jvp as jvp
from pellucid._machine.transforms.linearize import linearize as linearize
from pellucid._machine.transforms.vmap import vmap as vmap
from pellucid._machine.xla.arrays import Array as Array
from pellucid._machine.xla.client import Device as Device
from pellucid.sharding import (
    NamedSharding as NamedSharding,
    PartitionSpec,
    set_mesh as set_mesh,
)

__version__: str
__version_info__: tuple[int, int, int]

P = PartitionSpec
