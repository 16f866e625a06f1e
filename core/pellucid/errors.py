"""Errors under the names of `jax.errors`; each is the class of ours that says the same, `JaxRuntimeError` jaxlib's own.

`except` clauses written for the reference keep working; `PellucidError` is the base of all of ours. They have fields (`what`, `got`, `where`, `do`).
"""

from pellucid.base.dims import InconclusiveSizeError as InconclusiveDimensionOperation
from pellucid.base.errors import (
    ConcretizationError as ConcretizationTypeError,
    JaxprTypeError as JaxprTypeError,
    KeyReuseError as KeyReuseError,
    NonConcreteBooleanIndexError as NonConcreteBooleanIndexError,
    PellucidError as PellucidError,
    TracedValueError as JAXTypeError,
    TracerArrayError as TracerArrayConversionError,
    TracerBoolError as TracerBoolConversionError,
    TracerIntegerError as TracerIntegerConversionError,
    UnexpectedTracerError as UnexpectedTracerError,
)
from pellucid.xla import JaxRuntimeError as JaxRuntimeError

JAXIndexError = NonConcreteBooleanIndexError
