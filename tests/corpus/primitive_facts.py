"""Facts about public primitives, of either library."""

import importlib


def multiple_results(jax):
    """For each public primitive, by name, whether it gives a list of results."""
    return {p.name: p.multiple_results for p in _public(jax).values()}


def names(jax):
    """The name of each public primitive, by the name of its variable."""
    return {variable: p.name for variable, p in _public(jax).items()}


def _public(jax):
    modules = (importlib.import_module(f"{jax.__name__}.extend.core.primitives"), jax.lax)
    return {
        variable: getattr(module, variable)
        for module in modules
        for variable in dir(module)
        if variable.endswith("_p")
    }
