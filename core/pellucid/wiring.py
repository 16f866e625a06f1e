"""Every late binding of the core: what a lower layer calls in a higher one, and where that is defined."""

from pellucid._machine.base import late

late.origins.update(
    {
        "array methods": "pellucid.numpy.operators:METHODS",  # importing it installs them
        "asarray": "pellucid.numpy.creation:asarray",  # `jnp.float32(3)` makes an array
        "batched guards": "pellucid._machine.checks.checkify:batched_guards",
        "bottom trace": "pellucid._machine.compilation.eager:bottom",
        "check library result": "pellucid._machine.compilation.finite:check_library_result",
        "call of functions": "pellucid.extend.core.construction:call",  # libraries bind `call_p`
        # Devices of a mesh made without any.
        "devices": "pellucid._machine.runtime.platforms:devices",
        "how dtypes of keys are pickled": "pellucid.random.keys:reduced_dtype",
        "how keys are pickled": "pellucid.random.keys:reduce_keys",
        "load ahead": "pellucid._machine.compilation.disk_cache:programs_of_session",  # when devices are there
        "relaid": "pellucid._machine.compilation.eager:relaid",  # large arrays are laid out anew by a program
        "text": "pellucid._machine.ir.printing:text",
        "use trace": "pellucid._machine.tracing.current:use_trace",  # libraries bind primitives under traces
        # The transformations and the pipeline lie below calls.
        "with layers called": "pellucid._machine.higher_order.repeated_layers:with_layer_calls",
        # The dialects of devices are loaded where a kernel is lowered to them.
        "call of a Mosaic GPU kernel": "pellucid.kernels.mosaic_gpu.call:call",
        "call of a Mosaic kernel": "pellucid.kernels.mosaic_tpu.call:call",
        "cost of a kernel": "pellucid.analysis.costs:cost_of_kernel",  # told to XLA with its call
        "simulator of kernels": "pellucid.kernels.simulator.call:simulated",
        "call of a Triton kernel": "pellucid.kernels.triton.call:call",
        # Kernels are programs over higher-order primitives.
        "attention by kernels": "pellucid.experimental.pallas.ops.attention_of_nn:attention",
        "product of rows in groups": "pellucid.experimental.pallas.ops.ragged_products:product",
        # Values that consist of arrays are lowered to them.
        "call with values of libraries": "pellucid.experimental.hijax.calls:call",
        "shapes with values of libraries": "pellucid.experimental.hijax.calls:shapes",
        "typed number": "pellucid.numpy.typed_numbers:with_array_dtype",
    }
)
