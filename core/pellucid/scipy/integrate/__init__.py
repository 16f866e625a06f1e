"""`pellucid.scipy.integrate`: integrals of samples."""

from pellucid.numpy import trapezoid as trapezoid

__all__ = ["trapezoid"]
