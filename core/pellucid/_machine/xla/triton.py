"""Triton's dialect, to which kernels for GPUs are lowered. Importing it loads the classes of its operations."""

from __future__ import annotations

from jaxlib.triton import dialect as triton

from .kernel_dialects import arith, context_with, ir, math, scf

__all__ = ["arith", "ir", "math", "new_triton_context", "scf", "triton"]


def new_triton_context() -> ir.Context:
    """A fresh context with Triton's dialect and those that its programs use.

    >>> with new_triton_context():
    ...     print(ir.Type.parse("tensor<4x!tt.ptr<f32>>"))
    tensor<4x!tt.ptr<f32>>
    """
    return context_with(triton)
