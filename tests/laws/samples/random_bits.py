"""Rows for random bits."""

from tests.laws.sample import NAMES, Sample, array, values

REFERENCE = "__import__('jax.extend.random', fromlist=['random'])"
COUNTERS = "__import__('jax._src.random.prng', fromlist=['prng'])"
KEY = values([1, 2, 3, 4], "uint32")


def threefry(*shapes: tuple[int, ...]) -> Sample:
    """Words of keys and counters of these shapes."""
    return Sample(
        "lax.threefry2x32(x, y, z, w)", tuple(array(shape, "uint32", 0, 2**32 - 1) for shape in shapes),
        jax_call=f"{REFERENCE}.threefry2x32_p.bind(x, y, z, w)",
    )  # fmt: skip


def counter_hash(name: str, n_words: int, *shapes: tuple[int, ...]) -> Sample:
    """The hash called `name` of words of these shapes, the last of which is that of several more."""
    shapes = (*shapes, *shapes[-1:] * (n_words - len(shapes)))
    operands = tuple(array(shape, "uint32", 0, 2**32 - 1) for shape in shapes)
    names = ", ".join(NAMES[:n_words])
    return Sample(
        f"lax.{name}({names})", operands,
        jax_call=f"__import__('jax._src.random.{name}', fromlist=['p']).{name}_p.bind({names})",
    )  # fmt: skip


def counters(shape: tuple[int, ...]) -> Sample:
    """Positions in an array of `shape`."""
    return Sample(
        f"lax.iota_2x32_shape({shape})",
        (),
        batched=False,
        same_text=bool(shape),  # of a scalar, the reference knows both words while tracing
        jax_call=f"{COUNTERS}.iota_2x32_shape({shape})",
    )


def bits(params: str, key=KEY, **more) -> Sample:
    """Bits of the compiler's generator; a batch of keys is not a loop over them."""
    return Sample(f"lax.rng_bit_generator(x, {params})", (key,), batched=False, **more)


samples = [
    threefry((), (), (3,), (3,)),
    threefry((2, 3), (2, 3), (2, 3), (2, 3)),
    threefry((2, 1), (2, 1), (1, 3), (2, 3)),
    threefry((), (), (), ()),
    counter_hash("philox2x32", 3, (), (3,)),
    counter_hash("philox2x32", 3, (2, 1), (1, 3), (2, 3)),
    counter_hash("philox4x32", 6, (), (), (3,)),
    counter_hash("philox4x32", 6, (), ()),
    counter_hash("threefry4x32", 8, (), (), (), (), (2, 3)),
    counter_hash("threefry4x32", 8, (3,)),
    *[counters(shape) for shape in ((5,), (2, 3, 4), (), (0, 3))],
    bits("(2, 3)"),
    bits("(3,), np.dtype('uint8'), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY"),
    bits("(3,), np.dtype('uint64'), lax.RandomAlgorithm.RNG_PHILOX", x64=True),
    bits("(3,)", values([1, 2], "uint64")),
    # Between equal bounds there is but one number.
    Sample("lax.rng_uniform(x, x, (2, 3))", (values(1.5),), batched=False, wrt=()),
    Sample("lax.rng_uniform(x, x, (2,))", (values(1.5, "bfloat16"),), batched=False, wrt=()),
]
