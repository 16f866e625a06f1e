"""A jaxpr becomes a StableHLO module."""
