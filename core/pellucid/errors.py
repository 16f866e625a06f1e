"""Errors under the names of `jax.errors`; each is the class of ours that says the same.

`except` clauses written for the reference keep working; `PellucidError` is the base of all of ours. They have fields (`what`, `got`, `where`, `do`).
"""

from pellucid.base.errors import (
    ConcretizationError as ConcretizationTypeError,
    JaxprTypeError,
    NonConcreteBooleanIndexError,
    PellucidError,
    TracedValueError as JAXTypeError,
    TracerArrayError as TracerArrayConversionError,
    TracerBoolError as TracerBoolConversionError,
    TracerIntegerError as TracerIntegerConversionError,
    UnexpectedTracerError,
    XlaError as JaxRuntimeError,
)

JAXIndexError = NonConcreteBooleanIndexError

__all__ = [
    "ConcretizationTypeError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "NonConcreteBooleanIndexError",
    "PellucidError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
]
