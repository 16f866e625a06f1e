"""Every late binding of the core: what a lower layer calls in a higher one, and where that is defined."""

from pellucid.base import late

late.origins.update(
    {
        "array methods": "pellucid.numpy.operators:METHODS",  # importing it installs them
        "asarray": "pellucid.numpy.creation:asarray",  # `jnp.float32(3)` makes an array
        "bottom trace": "pellucid.compilation.eager:bottom",
        "call of functions": "pellucid.extend.core.construction:call",  # libraries bind `call_p`
        "devices": "pellucid.runtime.platforms:devices",  # of a mesh made without devices
        "load ahead": "pellucid.compilation.disk_cache:programs_of_session",  # when devices are there
        "relaid": "pellucid.compilation.eager:relaid",  # large arrays are laid out anew by a program
        "text": "pellucid.ir.printing:text",
        "use trace": "pellucid.tracing.current:use_trace",  # libraries bind primitives under traces
        # The transformations and the pipeline lie below calls.
        "with layers called": "pellucid.higher_order.repeated_layers:with_layers_called",
        # Values that consist of arrays are lowered to them.
        "call with values of libraries": "pellucid.experimental.hijax.calls:call",
        "shapes with values of libraries": "pellucid.experimental.hijax.calls:shapes",
        "typed number": "pellucid.numpy.typed_numbers:typed",
        # Operations among the names of `sharding`, a low layer.
        "auto_axes": "pellucid.primitives.placement:auto_axes",
        "explicit_axes": "pellucid.primitives.placement:explicit_axes",
        "reshard": "pellucid.primitives.placement:reshard",
    }
)
