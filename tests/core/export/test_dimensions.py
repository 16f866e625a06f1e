"""Expressions in dimension variables: normal form, bounds, constraints and texts, against integers."""

import itertools

import pytest
from hypothesis import given, settings, strategies as st

from pellucid._machine.base.dims import (
    InconclusiveDimensionOperation,
    known_at_least,
    larger,
    smaller,
)
from pellucid._machine.base.errors import ArgumentValueError
from pellucid.export import SymbolicScope, is_symbolic_dim, symbolic_shape
from pellucid.export.dimensions import evaluate

NAMES = ("a", "b", "c")
A, B, C = symbolic_shape("a, b, c")
POINTS: list[dict[str, int]] = [
    dict(zip(NAMES, sizes, strict=True)) for sizes in itertools.product((1, 2, 3, 7), repeat=3)
]
OPERATIONS = (
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x // y, lambda x, y: x % y, larger, smaller,
)  # fmt: skip
EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from(NAMES), st.integers(-5, 5)),
    lambda sides: st.tuples(st.sampled_from(range(len(OPERATIONS))), sides, sides),
    max_leaves=6,
)


def value(expression, variables):
    if isinstance(expression, str):
        return variables[expression]
    if isinstance(expression, int):
        return expression
    operation, *sides = expression
    return OPERATIONS[operation](*(value(side, variables) for side in sides))


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_expressions_compute_as_integers_do(expression):
    try:
        size = value(expression, {"a": A, "b": B, "c": C})
    except ZeroDivisionError:
        return
    low, high = size.bounds() if is_symbolic_dim(size) else (size, size)
    for point in POINTS:
        try:
            expected = value(expression, point)
        except ZeroDivisionError:
            continue
        assert evaluate(size, point) == expected
        assert low is None or low <= expected
        assert high is None or expected <= high
    assert symbolic_shape(str(size), scope=A.scope) == (size,)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_comparisons_hold_for_all_sizes_or_are_refused(left, right):
    try:
        x, y = (value(side, {"a": A, "b": B, "c": C}) for side in (left, right))
        holds = x >= y
    except (ZeroDivisionError, InconclusiveDimensionOperation):
        return
    for point in POINTS:
        try:
            assert (value(left, point) >= value(right, point)) == holds
        except ZeroDivisionError:
            continue


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (A + B, "b + a"), (B + A * 2 - 1, "b + 2*a - 1"), (A * B + C, "a*b + c"), (A**2 * B, "a^2*b"), (1 - A, "- a + 1"),
        ((2 * A + 1) // 2, "a"), ((4 * A + 2) // 2, "2*a + 1"), ((2 * A + 1) % 2, "1"), (A * B // B, "a"),
        (A // 2 * 2, "- mod(a, 2) + a"), (A // 2 * 2 // 2, "floordiv(a, 2)"), ((A // 3 * 3 + 6 * B) // 3, "floordiv(a, 3) + 2*b"), ((A + 2) // 2, "floordiv(a, 2) + 1"), (-A // 2, "floordiv(a, 2) - a"),
        (larger(A, 1), "a"), (larger(A, 3), "max(a, 3)"), (smaller(A, B), "min(b, a)"), (A // (A + 1), "0"),
        ((A * A - B * B) // (A + B), "- b + a"), (abs(A - 3), "max(a - 3, - a + 3)"), (A * (B // 2), "a*floordiv(b, 2)"),
    ],
)  # fmt: skip
def test_normal_form(size, text):
    assert str(size) == text


def test_what_bounds_decide():
    for holds in (
        A >= 1, A > 0, A * B >= A, A // 2 <= A, A - A // 2 >= 0, A % 3 < 3, (A + 1) // 2 <= A, larger(A, 4) >= 4,
        smaller(A, 4) <= A, A + B >= 2, -A < 0, bool(A), A == A + 0, A != B, hash(A) == hash(A + 0),
    ):  # fmt: skip
        assert holds is True
    for undecided in (lambda: A > 1, lambda: A >= B, lambda: A * B > A, lambda: bool(A - 1)):
        with pytest.raises(InconclusiveDimensionOperation, match="State what holds"):
            undecided()
    with pytest.raises(InconclusiveDimensionOperation) as caught:
        _ = A < B
    assert 'constraints=["a + 1 <= b"]' in str(caught.value)
    assert "test_dimensions.py, line" in str(caught.value)


def test_choices_are_followed_both_ways():
    assert larger(A - 2, 0) + 1 <= A
    assert A - larger(A - 2, 0) >= 1
    assert smaller(A, 5) - 5 <= 0
    assert known_at_least(5, A - larger(A - 5, 0))
    assert known_at_least(larger(A, B) + C, smaller(A, B) + 1)
    assert known_at_least(larger(larger(A - 1, B), 3), 3)
    assert not known_at_least(larger(A - 1, B - 1), 1)


def test_constraints():
    c, d, _ = symbolic_shape(
        "c, d, e", constraints=["c >= 8", "mod(c, 4) == 0", "c <= 100", "d == 2*e"]
    )
    assert (c % 4, c // 4 * 4, str(d)) == (0, c, "2*e")
    assert c.bounds() == (8, 100)
    assert (c // 4).bounds() == (2, 25)
    assert d >= 2
    with pytest.raises(InconclusiveDimensionOperation):
        _ = c >= 9
    m, n, k = symbolic_shape("m, n, k", constraints=["m + n == 4*k", "m >= n"])
    assert m + n == 4 * k
    assert m >= 2 * k
    assert n >= 1
    assert symbolic_shape("h", constraints=["h == 4"]) == (4,)


@pytest.mark.parametrize(
    ("constraints", "bounds"),
    [
        (["mod(a, 2) == 0"], (2, None)), (["mod(a, 8) == 0", "a <= 30"], (8, 24)), (["mod(a, 4) == 3", "a >= 5"], (7, None)),
        (["mod(a, 3) == 1"], (1, None)), (["mod(a, b) == 0"], (1, None)), (["mod(a, 5) == 0", "a <= 9"], (5, 5)),
    ],
)  # fmt: skip
def test_bounds_of_sizes_with_known_remainders(constraints, bounds):
    a, b = symbolic_shape("a, b", constraints=constraints)
    assert a.bounds() == bounds
    assert (a + b).bounds()[0] == bounds[0] + 1


def test_bounds_of_sums_with_known_remainders():
    a, b = symbolic_shape("a, b", constraints=["mod(a + b, 4) == 0"])
    assert a + b >= 4
    with pytest.raises(ArgumentValueError, match="holds for no sizes"):
        symbolic_shape("a", constraints=["mod(a, 4) == 0", "a <= 3"])


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("a > b", "has no relation"), ("a", "has no relation"), ("2*a == 3*b", "solved for one variable"),
        ("a <= 0", "holds for no sizes"), ("1 == 2", "holds for no sizes"), ("a >= b >= c", "can't be read"),
    ],
)  # fmt: skip
def test_constraints_that_are_refused(constraint, message):
    with pytest.raises(ArgumentValueError, match=message):
        symbolic_shape("a, b, c", constraints=[constraint])


def test_scopes_are_kept_apart():
    (other,) = symbolic_shape("a")
    assert other != A
    with pytest.raises(ArgumentValueError, match="different scopes"):
        _ = other + A
    with pytest.raises(ArgumentValueError, match="constraints or a scope"):
        symbolic_shape("a", constraints=["a >= 2"], scope=SymbolicScope())
    with pytest.raises(ArgumentValueError, match="sequence of strings"):
        SymbolicScope("a >= 2")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("(a,b)", "(a, b)"), ("a,", "(a,)"), ("()", "()"), ("", "()"), ("3", "(3,)"), ("-a + 2", "(- a + 2,)"),
        ("2*a+b^2, max(a,b)", "(b^2 + 2*a, max(b, a))"), ("(a+1)*2", "(2*a + 2,)"), ("floordiv(a, 2)", "(floordiv(a, 2),)"),
    ],
)  # fmt: skip
def test_texts(text, shape):
    assert str(symbolic_shape(text)) == shape


@pytest.mark.parametrize(
    "text", ["a b", "a//2", "a^b", "[a]", "f(a)", "(a", "a,,b", "_", "...", "max(a)", "a+"]
)
def test_texts_that_are_refused(text):
    with pytest.raises(ArgumentValueError, match="can't be read"):
        symbolic_shape(text)


def test_placeholders_take_known_sizes():
    assert str(symbolic_shape("a, _, ...", like=(3, 4, 5, 6))) == "(a, 4, 5, 6)"
    assert symbolic_shape(None, like=(3, 4)) == (3, 4)
    for text, like in (("a, 3", (2, 4)), ("a", (2, 4)), ("_", (None,)), ("a, _", (2,))):
        with pytest.raises(ArgumentValueError, match="can't be read"):
            symbolic_shape(text, like=like)


def test_facts_of_several_variables():
    n, m = symbolic_shape("n, m", constraints=["n >= 2*m", "m >= 3", "n <= 3*m"])
    assert known_at_least(n, 6)
    assert known_at_least(n - m, 3)
    assert known_at_least(0, n - 3 * m)
    assert not known_at_least(n, 7)
