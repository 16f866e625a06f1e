"""Errors under the names of `jax.errors`; `JaxRuntimeError` is jaxlib's own.

`except` clauses written for the reference keep working; `PellucidError` is the base of all of ours. They have fields (`what`, `got`, `where`, `do`).
"""

from pellucid._machine.base.dims import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
)
from pellucid._machine.base.errors import (
    ConcretizationTypeError as ConcretizationTypeError,
    JAXIndexError as JAXIndexError,
    JaxprTypeError as JaxprTypeError,
    JAXTypeError as JAXTypeError,
    KeyReuseError as KeyReuseError,
    NonConcreteBooleanIndexError as NonConcreteBooleanIndexError,
    PellucidError as PellucidError,
    TracerArrayConversionError as TracerArrayConversionError,
    TracerBoolConversionError as TracerBoolConversionError,
    TracerIntegerConversionError as TracerIntegerConversionError,
    UnexpectedTracerError as UnexpectedTracerError,
)
from pellucid._machine.xla import JaxRuntimeError as JaxRuntimeError
