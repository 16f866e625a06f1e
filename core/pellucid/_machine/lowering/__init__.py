"""Lowering: converts a jaxpr to a StableHLO module."""
