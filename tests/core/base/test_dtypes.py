"""Dtypes agree with the reference, bit for bit, with 64 bits on and off."""

import itertools
import pickle
import types
import warnings

import ml_dtypes
import numpy as np
import pytest
from corpus import dtype_facts, promotion
from hypothesis import given, strategies as st

from pellucid import dtypes as facade
from pellucid._machine.base import config, dtypes, late
from pellucid._machine.base.dtypes import SCALAR_TYPES, KeyDType
from pellucid._machine.base.errors import DtypeError
from tools import public_api

BOTH_WIDTHS = pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
BOTH_MODES = pytest.mark.parametrize("mode", ["standard", "strict"])


@pytest.fixture
def reference(x64, oracle, oracle_x64):
    """The oracle for `x64`, which is switched here, too."""
    with config.enable_x64(x64):
        yield oracle_x64 if x64 else oracle


def key_dtype(tag="fry", shape=(2,)):
    return KeyDType(f"key<{tag}>", dtypes.prng_key, np.dtype("uint32"), shape)


# Promotion


def promoted(combination):
    try:
        dtype, weak_type = dtypes.promote(
            tuple((np.dtype(name), weak_type) for name, weak_type in combination)
        )
    except dtypes.TypePromotionError:
        return "error"
    return dtype.name, weak_type


@BOTH_WIDTHS
@BOTH_MODES
def test_every_pair_of_operands_promotes_as_in_the_reference(reference, x64, mode):
    types_ = promotion.operand_types(x64)
    pairs = [*((one,) for one in types_), *itertools.product(types_, types_)]
    expected = reference.call(promotion.lattice_results, pairs, mode)
    with config.numpy_dtype_promotion(mode):
        got = [promoted(pair) for pair in pairs]
    wrong = [(p, g, e) for p, g, e in zip(pairs, got, expected, strict=True) if g != e]
    assert not wrong
    assert len(pairs) > 3000
    assert {"error", ("float32", True), ("int8", False)} <= set(expected)


@BOTH_WIDTHS
@BOTH_MODES
def test_triples_of_operands_promote_as_in_the_reference(reference, x64, mode):
    triples = promotion.sampled_triples(x64)
    expected = reference.call(promotion.lattice_results, triples, mode)
    with config.numpy_dtype_promotion(mode):
        got = [promoted(triple) for triple in triples]
    wrong = [(t, g, e) for t, g, e in zip(triples, got, expected, strict=True) if g != e]
    assert not wrong


@BOTH_WIDTHS
@BOTH_MODES
def test_promote_types_agrees_with_the_reference(reference, x64, mode):
    expected = reference.call(promotion.promoted_types, mode)

    def result(a, b):
        try:
            return dtypes.promote_types(promotion.named(a), promotion.named(b)).name
        except dtypes.TypePromotionError:
            return "error"

    with config.numpy_dtype_promotion(mode):
        assert {pair: result(*pair) for pair in expected} == expected


OPERANDS = st.lists(
    st.tuples(st.sampled_from(promotion.DTYPES).map(np.dtype), st.booleans()),
    min_size=1,
    max_size=4,
)


@given(OPERANDS, st.randoms())
def test_promotion_does_not_depend_on_order(operands, random):
    shuffled = list(operands)
    random.shuffle(shuffled)

    def result(some):
        try:
            return dtypes.promote(tuple(some))
        except dtypes.TypePromotionError:
            return "error"

    assert result(operands) == result(shuffled)


@given(OPERANDS)
def test_a_strong_result_holds_every_strong_operand(operands):
    try:
        dtype, weak_type = dtypes.promote(tuple(operands))
    except dtypes.TypePromotionError:
        return
    for operand_dtype, operand_weak in operands:
        if not operand_weak and not weak_type:
            assert dtypes.promote(((dtype, False), (operand_dtype, False))) == (dtype, False)


def test_promotion_is_worked_out_once():
    operands = ((np.dtype("int8"), False), (np.dtype("float16"), False))
    assert dtypes.promote(operands) is dtypes.promote(operands)


def test_extended_dtypes_promote_with_themselves_only():
    key = key_dtype()
    assert dtypes.promote(((key, False), (key_dtype(), False))) == (key, False)
    assert dtypes.result_type(key) == key
    for other in (key_dtype("rbg", (4,)), np.dtype("int32"), dtypes.float0):
        with pytest.raises(
            (dtypes.TypePromotionError, DtypeError), match=r"between key|can't be combined"
        ):
            dtypes.promote(((key, False), (other, False)))


def test_float0_promotes_with_itself_only():
    assert dtypes.result_type(dtypes.float0, dtypes.float0) == dtypes.float0
    with pytest.raises(DtypeError, match="float0"):
        dtypes.result_type(dtypes.float0, "float32")


@BOTH_WIDTHS
def test_result_type_agrees_with_the_reference(reference, x64):
    operands = [
        (1,), (1.0,), (True, 1), (1, 2.0), (np.int8(1), 2), (np.int8(1), 2.0), ("i8", "u8"),
        (None,), (None, "f2"), (int, "u1"), (np.uint64(1), np.int8(1)), (2**40, np.int8(1)),
        (np.ones(2), np.float16(1)), ("int4", "int8"), ("bfloat16", 1j), ("nonsense",), ([1],),
    ]  # fmt: skip
    expected = reference.call(dtype_facts.result_types, operands)
    assert [dtype_facts.described(dtypes.result_type, *some) for some in operands] == expected


def test_result_type_gives_the_weak_type_when_asked():
    assert dtypes.result_type(1, 2.0, return_weak_type_flag=True) == (np.dtype("float32"), True)


def test_result_type_needs_an_argument():
    with pytest.raises(ValueError, match="at least one value or dtype"):
        dtypes.result_type()


def test_a_promotion_that_is_missing_says_which_and_what_to_do():
    with pytest.raises(dtypes.TypePromotionError) as caught:
        dtypes.result_type("int4", "int8")
    assert str(caught.value) == (
        "No implicit promotion between int4 and int8.\n"
        "  Integer dtypes of fewer than 8 bits aren't promoted: convert explicitly, for example"
        " with `x.astype('float32')`."
    )
    with pytest.raises(dtypes.TypePromotionError, match="between float8_e4m3fn and float16"):
        dtypes.promote_types("float8_e4m3fn", "float16")
    with (
        config.numpy_dtype_promotion("strict"),
        pytest.raises(dtypes.TypePromotionError, match=r"int8 and float \(weak\)\.\n  In strict"),
    ):
        dtypes.lattice_result_type(np.int8(1), 1.0)


# Single dtypes


@BOTH_WIDTHS
def test_facts_of_single_dtypes_agree_with_the_reference(reference, x64):
    for name, expected in reference.call(dtype_facts.facts).items():
        dtype = np.dtype(name)
        assert {
            "short": dtypes.short_name(dtype),
            "bits": dtypes.itemsize_bits(dtype),
            "canonical": dtypes.canonicalize_dtype(name).name,
            "complex": dtypes.to_complex_dtype(name).name,
            "numeric": dtypes.to_numeric_dtype(name).name,
            "python": dtypes.scalar_type_of(dtype.type(0)).__name__,
        } == expected
    for name, expected in reference.call(dtype_facts.floating_dtypes).items():
        inexact, floating = dtypes.to_inexact_dtype(name), dtypes.to_floating_dtype(name)
        assert (inexact.name, floating.name) == expected


def test_keys_have_no_inexact_dtype():
    with pytest.raises(DtypeError, match="arithmetic"):
        dtypes.to_inexact_dtype(key_dtype())


def test_integers_of_fewer_bits_become_float32_where_a_float_is_needed():
    for name in ("int1", "int2", "uint1", "uint2"):
        assert dtypes.to_inexact_dtype(name) == dtypes.to_floating_dtype(name) == np.float32


def test_issubdtype_agrees_with_the_reference(oracle):
    library = types.SimpleNamespace(
        numpy=types.SimpleNamespace(float32=SCALAR_TYPES["float32"]), dtypes=facade
    )
    expected = oracle.call(dtype_facts.reference_subtypes)
    assert dtype_facts.subtypes(library, dtypes.issubdtype) == expected
    assert len(expected) > 2000


def test_key_dtypes_belong_to_their_categories():
    key = key_dtype()
    assert dtypes.issubdtype(key, dtypes.prng_key)
    assert dtypes.issubdtype(key, dtypes.extended)
    assert dtypes.issubdtype(key, np.generic)
    assert dtypes.issubdtype(key, key_dtype())
    assert not dtypes.issubdtype(key, np.floating)
    assert not dtypes.issubdtype(key, key_dtype("rbg", (4,)))
    assert not dtypes.issubdtype(np.float32, key)
    assert not dtypes.issubdtype(np.float32, dtypes.extended)


def test_issubdtype_refuses_what_is_no_dtype():
    for nonsense in (3, "nonsense", [1]):
        with pytest.raises(TypeError):
            dtypes.issubdtype(nonsense, np.floating)


def test_isdtype_agrees_with_the_reference(oracle):
    expected = oracle.call(dtype_facts.reference_kinds)
    assert dtype_facts.kinds(None, dtypes.isdtype) == expected
    assert not dtypes.isdtype(key_dtype(), "numeric")
    assert dtypes.isdtype(key_dtype(), key_dtype())


@pytest.mark.parametrize("kind", ["nonsense", 3])
def test_isdtype_names_the_kinds_it_knows(kind):
    with pytest.raises(DtypeError, match="'real floating'"):
        dtypes.isdtype("float32", kind)


def test_infinity_is_where_the_dtype_has_one():
    for dtype in dtypes.FLOATS:
        with np.errstate(all="ignore"):
            assert dtypes.supports_inf(dtype) == bool(np.isinf(dtype.type(np.inf)))
    assert not dtypes.supports_inf("int32")
    assert dtypes.supports_inf("complex64")


# Values


@BOTH_WIDTHS
def test_dtypes_of_values_agree_with_the_reference(reference, x64):
    expected = reference.call(dtype_facts.value_dtypes)
    described = dtype_facts.described
    for value, reference_row in zip(dtype_facts.values(), expected, strict=True):
        row = (
            described(dtypes.dtype_of, value),
            described(dtypes.is_weakly_typed, value),
            described(dtypes.lattice_result_type, value),
            described(dtypes.scalar_type_of, value),
        )
        assert row == reference_row, value


@BOTH_WIDTHS
def test_dtypes_given_by_users_agree_with_the_reference(reference, x64):
    expected = reference.call(dtype_facts.user_dtypes)
    for value, reference_result in zip(dtype_facts.values(), expected, strict=True):
        result = dtype_facts.described(dtypes.check_user_dtype, value, "zeros")
        assert result == reference_result, value


def test_values_bring_their_own_dtype_and_weak_type():
    operand = types.SimpleNamespace(dtype=np.dtype("float64"), weak_type=True)
    assert dtypes.dtype_and_weak_type(operand) == (np.dtype("float32"), True)
    assert dtypes.dtype_of(types.SimpleNamespace(dtype=key_dtype())) == key_dtype()


def test_a_value_without_dtype_is_named_by_its_type():
    with pytest.raises(DtypeError, match="no dtype that an array can have") as caught:
        dtypes.dtype_of([1, 2])
    assert caught.value.got == ("list",)
    with pytest.raises(DtypeError) as caught:
        dtypes.dtype_of(np.array("text"))
    assert caught.value.got == ("ndarray of <U4",)


def test_asking_for_64_bits_while_they_are_off_warns():
    with pytest.warns(
        dtypes.TruncatedDtypeWarning,
        match="^Explicitly requested dtype float64 requested in zeros is not available",
    ):
        assert dtypes.check_user_dtype("float64", "zeros") == np.dtype("float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dtypes.check_user_dtype(float, "zeros") == np.dtype("float32")
        with config.enable_x64(True):
            assert dtypes.check_user_dtype("float64", "zeros") == np.dtype("float64")


def test_default_dtypes_follow_the_width():
    def defaults():
        return [
            dtypes.default_int_dtype().name,
            dtypes.default_uint_dtype().name,
            dtypes.default_float_dtype().name,
            dtypes.default_complex_dtype().name,
            dtypes.as_dtype(None).name,
            dtypes.as_dtype(int).name,
        ]

    assert defaults() == ["int32", "uint32", "float32", "complex64", "float32", "int32"]
    with config.enable_x64(True):
        assert defaults() == ["int64", "uint64", "float64", "complex128", "float64", "int64"]


# Extended dtypes and scalar types


def test_extended_dtypes_are_equal_by_value():
    assert key_dtype() == key_dtype()
    assert hash(key_dtype()) == hash(key_dtype())
    assert key_dtype() != key_dtype("rbg", (4,))
    assert key_dtype() != np.dtype("uint32")
    assert np.dtype("uint32") != key_dtype()
    assert (key_dtype().itemsize, dtypes.itemsize_bits(key_dtype())) == (8, 64)
    assert dtypes.short_name(key_dtype()) == str(key_dtype()) == "key<fry>"
    assert pickle.loads(pickle.dumps(key_dtype())) == key_dtype()


def test_extended_dtypes_are_canonical_only_where_they_are_expected():
    assert dtypes.canonicalize_dtype(key_dtype(), allow_extended_dtype=True) == key_dtype()
    with pytest.raises(DtypeError, match="no canonical form"):
        dtypes.canonicalize_dtype(key_dtype())


@pytest.mark.parametrize("name", SCALAR_TYPES)
def test_scalar_types_stand_for_their_dtype(name):
    scalar_type = SCALAR_TYPES[name]
    dtype = np.dtype(name)
    assert np.dtype(scalar_type) == scalar_type.dtype == dtype
    assert scalar_type == dtype.type
    assert dtype.type == scalar_type
    assert hash(scalar_type) == hash(dtype.type)
    assert {dtype.type: 1}[scalar_type] == 1
    assert scalar_type != np.dtype("S").type
    assert isinstance(dtype.type(0), scalar_type)
    assert not isinstance(0, scalar_type)
    assert issubclass(type(scalar_type), type)
    assert repr(scalar_type) == f"<class 'pellucid.numpy.{name}'>"
    with config.enable_x64(True):
        assert dtypes.dtype_of(scalar_type) == dtype


def test_a_scalar_type_is_called_through_the_wiring(monkeypatch):
    monkeypatch.setitem(late._loaded, "asarray", lambda x, dtype: (x, dtype))
    assert SCALAR_TYPES["int4"](3) == (3, np.dtype(ml_dtypes.int4))
    assert SCALAR_TYPES["int4"](x=3) == (3, np.dtype(ml_dtypes.int4))


def test_the_facade_has_the_reference_s_names(oracle):
    names = oracle.call(dtype_facts.public_names)
    assert sorted(public_api.names_of(facade)) == names["dtypes"]
    assert facade.bfloat16 is ml_dtypes.bfloat16
