"""Constants of programs as `jax._src.literals`: pellucid has none with types of their own."""


class TypedNdArray:
    """Class of NumPy constants with a weak type; nothing is an instance."""


LiteralArray = TypedNdArray
