"""Facts about the reference's primitives."""


def multiple_results(jax):
    """For each public primitive, by name, whether it gives a list of results."""
    from jax.extend.core import primitives

    modules = (primitives, jax.lax)
    found = {name: getattr(module, name) for module in modules for name in dir(module)}
    return {p.name: p.multiple_results for name, p in found.items() if name.endswith("_p")}
