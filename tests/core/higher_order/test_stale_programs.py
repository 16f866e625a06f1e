"""Nothing that changes between two uses of a function is missed that the reference sees.

What jax makes of the same programs stands in `tests/corpus/stale_answers.json`, which is written by
`python -c "from corpus.stale_programs import record; record('jax', 'corpus/stale_answers.json')"` in `tests`.
"""

import json
from pathlib import Path

import pytest
from corpus import stale_library, stale_programs, stale_readers
from rotation import rotating

import pellucid as pl

ANSWERS = json.loads(Path(stale_programs.__file__).with_name("stale_answers.json").read_text())


def rows(kind):
    """Questions of a kind; of each use and place all but the first rotate."""
    questions = [tuple(key.split()[1:]) for key in ANSWERS if key.startswith(kind)]
    first = {"jit", "position"}
    return rotating(questions, lambda row: row if row[-1] in first else row[-1])


TRACED_LESS = {
    ("jitted_helper", "piecewise"), ("jitted_helper", "ufunc"), ("jitted_helper", "custom_vjp"),
    ("jitted_helper", "eval_shape"), ("jitted_helper", "closure_convert"), ("jitted_helper", "make_jaxpr"),
}  # fmt: skip
"""Where the function inside is jitted, was traced for these types, and hasn't changed."""


@pytest.mark.parametrize(("reader", "use"), rows("read"))
def test_what_functions_read(reader, use):
    """Values are those of the reference but where Python ran more often here, and it ran as often or more."""
    ours = json.loads(json.dumps(stale_readers.read(pl, reader, use)))
    theirs = ANSWERS[f"read {reader} {use}"]
    ran_more = False
    for (value, count), (expected, expected_count) in zip(ours, theirs, strict=True):
        ran_more |= count > expected_count
        assert value == expected or ran_more
        assert (
            count >= expected_count
            or (reader, use) in TRACED_LESS
            or use == "custom_linear_solve"  # one of its programs serves twice
        )
    assert ours[0][0] == theirs[0][0]


@pytest.mark.parametrize(("name", "place"), rows("static"))
def test_static_arguments(name, place):
    """Each step has the value of the reference, which may be an older one, or the right one."""
    ours = stale_programs.with_static(pl, name, place)
    theirs = ANSWERS[f"static {name} {place}"]
    right = stale_programs.expected_of_static(name)
    for (value, count), (expected, expected_count), fresh in zip(ours, theirs, right, strict=True):
        assert value in (expected, fresh)
        assert count >= expected_count


FRESHER = {
    "generators_of_keys": "the reference doesn't see another default generator",
    "options_of_one_function": "the reference traces once for all options of compilation",
    "host_methods_of_equal_objects": "the reference takes an equal object's method in eager calls",
}


@pytest.mark.parametrize("name", stale_programs.PROGRAMS)
def test_programs(name):
    ours = json.loads(json.dumps(stale_programs.PROGRAMS[name](pl)))
    theirs = ANSWERS[f"program {name}"]
    assert ours == theirs or name in FRESHER
    for our, their in zip(ours, theirs, strict=True):
        if name in FRESHER and isinstance(our[1], int):
            assert our[1] > their[1] or our == their or name == "host_methods_of_equal_objects"


def test_the_right_values_where_the_reference_has_older_ones():
    ones = [value for value, _ in stale_programs.PROGRAMS["generators_of_keys"](pl)]
    assert ones[0::2] == ones[1::2]
    hosts = [value for value, _ in stale_programs.PROGRAMS["host_methods_of_equal_objects"](pl)]
    assert hosts == ([["float32 2.0"] * 2] * 3 + [["float32 3.0"] * 2] * 3) * 2
    options = [value for value, _ in stale_programs.PROGRAMS["options_of_one_function"](pl)]
    assert options == [value for value, _ in ANSWERS["program options_of_one_function"]]


@pytest.mark.parametrize(
    ("name", "mode"),
    rotating(
        [(name, mode) for name in stale_library.LIBRARY for mode in ("eager", "jit", "one jit")],
        lambda row: row if row[0] in ("get_filled", "take_filled", "pad") else row[1],
    ),
)
def test_functions_of_the_library(name, mode):
    """What a function gives doesn't depend on the values that it was called with before."""
    _, values = stale_library.LIBRARY[name]
    pl.clear_caches()
    forwards = stale_library.outcomes(pl, name, mode, values * 3)
    n = len(values)
    assert forwards[:n] == forwards[n : 2 * n] == forwards[2 * n :]
    pl.clear_caches()
    backwards = stale_library.outcomes(pl, name, mode, values[::-1])
    assert backwards[::-1] == forwards[:n]
