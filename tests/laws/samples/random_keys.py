"""Rows for typed keys, made of their words."""

from tests.laws.sample import Operand, Sample, array, values

WORDS = values([7, 9], "uint32")
SEVERAL = array((3, 2), "uint32", 0, 2**32 - 1)


def row(call: str, *operands: Operand, **more) -> Sample:
    """A row of functions of `random`; KEYS are the keys whose words are the first operand."""
    call = call.replace("KEYS", "random.wrap_key_data(x)")
    return Sample(
        call, operands, jax_call=call.replace("random.", "__import__('jax').random."), **more
    )


samples = [
    row("random.bits(KEYS, (2, 3))", WORDS),
    row("random.bits(KEYS, (2, 3), 'uint8')", WORDS),
    row("random.bits(KEYS, (5,), 'uint64')", WORDS, x64=True),
    row("random.key_data(random.split(KEYS, (2, 3)))", WORDS),
    row("random.key_data(random.fold_in(KEYS, y))", WORDS, values(5, "uint32")),
    row("random.key_data(random.clone(KEYS))", SEVERAL),
    row("random.key_data(random.key(x))", values(-3, "int32")),
    row("random.key_data(random.key(x))", values(2**40 + 7, "int64")),
    row("random.gamma(KEYS, y)", WORDS, array((2,), "float32", 0.5, 3.0), wrt=(), same_text=False),
]
