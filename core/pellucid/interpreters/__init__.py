"""Rules of primitives under the names of `jax.interpreters`: one module for each transformation."""

from pellucid.interpreters import (
    ad as ad,
    batching as batching,
    mlir as mlir,
    partial_eval as partial_eval,
    pxla as pxla,
    xla as xla,
)
