"""Modules, functions and calls of Python that rules of libraries build."""

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CallbackError,
    UnsupportedError,
)
from pellucid._machine.ir.effects import io_effect, ordered_io_effect
from pellucid.experimental.layout import Layout
from pellucid.extend.core import Primitive
from pellucid.interpreters import mlir, partial_eval

X = np.array([3, 1, 2], np.float32)
PROGRAM = pl.make_jaxpr(lambda x: pl.numpy.sin(x) + X)(X)


def primitive(name, rule):
    p = Primitive(name)
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, rule)
    return p


def test_a_module_of_a_program_with_constants() -> None:
    result = mlir.lower_jaxpr_to_module(
        "mine", PROGRAM, in_avals=PROGRAM.in_avals, platforms=["cpu"], num_const_args=0,
        ordered_effects=[], backend=None, axis_context=None, donated_args=[True],
        arg_names=["x"], result_names=["y"], lowering_parameters=mlir.LoweringParameters(),
    )  # fmt: skip
    text = mlir.module_to_string(result.module)
    assert "module @mine" in text
    assert "jax.buffer_donor = true" in text
    assert 'jax.result_info = "y"' in text
    assert (result.keepalive, result.host_callbacks) == (None, [])
    assert not result.shape_poly_state.uses_dim_vars
    several = mlir.lower_jaxpr_to_module("mine", PROGRAM, platforms=["cpu", "tpu"])
    assert several.shape_poly_state.has_platform_index_argument
    assert "_platform_index" in str(several.module)


@pytest.mark.parametrize(
    "option",
    [
        {"num_partitions": 2},
        {"arg_shardings": [None, 1]},
        {"lowering_parameters": mlir.LoweringParameters(for_export=True)},
    ],
)
def test_options_of_placements_are_refused(option) -> None:
    with pytest.raises(UnsupportedError, match="can't place arguments") as caught:
        mlir.lower_jaxpr_to_module("mine", PROGRAM, platforms=["cpu"], **option)
    assert any(
        name in str(caught.value) for name in ("num_partitions", "arg_shardings", "for_export")
    )


def test_types_and_effects_must_be_those_of_the_program() -> None:
    with pytest.raises(ArgumentValueError, match="`in_avals` must be the types"):
        mlir.lower_jaxpr_to_module("mine", PROGRAM, platforms=["cpu"], in_avals=[pl.typeof(1.0)])
    with pytest.raises(ArgumentValueError, match="lacks ordered effects"):
        mlir.lower_jaxpr_to_module(
            "mine", PROGRAM, platforms=["cpu"], ordered_effects=[ordered_io_effect]
        )


def test_functions_of_one_name_are_told_apart() -> None:
    def rule(ctx, x):
        for _ in range(2):
            function = mlir.lower_jaxpr_to_fun(ctx.module_context, "layer", PROGRAM, ())
            names.append(function.name.value)
            callee = mlir.ir.FlatSymbolRefAttr.get(function.name.value)
            x = ctx.op1("func.call", ctx.avals_out[0], [x], {"callee": callee})
        return [x]

    names: list[str] = []
    result = pl.jit(primitive("layers", rule).bind)(X)
    assert len(set(names)) == 2
    np.testing.assert_allclose(result, np.sin(np.sin(X) + X) + X, rtol=1e-6)


def lowered_with(x, **options):
    """Attributes of the function that a rule lowers `PROGRAM` to, and the result of the call."""

    def rule(ctx, x):
        function = mlir.lower_jaxpr_to_fun(ctx.module_context, "placed", PROGRAM, (), **options)
        texts.append(str(function))
        callee = mlir.ir.FlatSymbolRefAttr.get(function.name.value)
        return [ctx.op1("func.call", ctx.avals_out[0], [x], {"callee": callee})]

    texts: list[str] = []
    result = pl.jit(primitive("placed", rule).bind)(x)
    np.testing.assert_allclose(result, np.sin(X) + X, rtol=1e-6)
    return texts[0]


@pytest.mark.parametrize(
    ("options", "attribute"),
    [
        ({"input_output_aliases": [0]}, "arg_attrs = [{tf.aliasing_output = 0 : i32}]"),
        ({"xla_donated_args": [True]}, "arg_attrs = [{jax.buffer_donor = true}]"),
        (
            {"xla_donated_args": [True], "input_output_aliases": [0]},
            "arg_attrs = [{tf.aliasing_output = 0 : i32}]",
        ),
        (
            {"replicated_args": [True]},
            "arg_attrs = [{mhlo.is_same_data_across_replicas = true}]",
        ),
        (
            {"arg_memory_kinds": ["pinned_host"]},
            'arg_attrs = [{mhlo.memory_kind = "pinned_host"}]',
        ),
        ({"result_memory_kinds": ["device"]}, 'res_attrs = [{mhlo.memory_kind = "device"}]'),
        ({"arg_layouts": [Layout((0,))]}, 'arg_attrs = [{mhlo.layout_mode = "{0}"}]'),
        ({"result_layouts": [Layout.AUTO]}, 'res_attrs = [{mhlo.layout_mode = "auto"}]'),
        ({"result_names": ["y"]}, 'res_attrs = [{jax.result_info = "y"}]'),
        ({"arg_names": ["x"], "arg_shardings": [None]}, "arg_attrs = [{}]"),
        ({"main_function": True}, 'sym_visibility = "public"'),
    ],
)
def test_attributes_of_functions_are_the_references(options, attribute) -> None:
    assert attribute in lowered_with(X, **options)


def test_shardings_of_functions() -> None:
    sharding = pl.NamedSharding(pl.make_mesh((3,), ("i",)), pl.P("i"))
    x = pl.device_put(X, sharding)
    stated = {"arg_shardings": [sharding], "result_shardings": [sharding]}
    annotation = '[{sdy.sharding = #sdy.sharding<@mesh, [{"i"}]>}]'
    text = lowered_with(x, **stated)
    assert f"arg_attrs = {annotation}" in text
    assert f"res_attrs = {annotation}" in text
    text = lowered_with(x, **stated, use_sharding_annotations=False)
    assert "arg_attrs = [{}]" in text
    operations = text.splitlines()[2:-2]
    assert ["sharding_constraint" in line for line in operations] == [
        i in (0, len(operations) - 1) for i in range(len(operations))
    ]
    with pytest.raises(UnsupportedError, match="several devices in a program of one"):
        lowered_with(X, **stated)
    one_device = pl.sharding.SingleDeviceSharding(pl.devices()[0])
    assert "arg_attrs = [{}]" in lowered_with(X, arg_shardings=[one_device])


def test_options_of_functions_are_checked() -> None:
    with pytest.raises(ArgumentValueError, match="`arg_layouts` with an entry for each argument"):
        lowered_with(X, arg_layouts=[None, None])
    with pytest.raises(UnsupportedError, match="propagated_out_mem_kinds"):
        lowered_with(X, propagated_out_mem_kinds=("device",))


@pytest.mark.parametrize("with_token", [False, True])
def test_calls_of_python(with_token) -> None:
    def rule(ctx, x):
        token = (
            ctx.op("stablehlo.create_token", [mlir.token_type()], []).result if with_token else None
        )
        results, token, keepalive = mlir.emit_python_callback(
            ctx, function, token, [x], ctx.avals_in, ctx.avals_out, has_side_effect=True
        )
        assert (token is None) is not with_token
        ctx.add_keepalive(keepalive)
        return results

    function = lambda x: (np.sort(np.asarray(x)),)
    p = primitive("sorted", rule)
    assert pl.jit(p.bind)(X).tolist() == [1, 2, 3]
    for bad, message in (
        (lambda x: (np.zeros(2, np.float32),), "returned another type"),
        (lambda x: (x, x), "returned another structure"),
        (lambda x: 1 // 0, "raised ZeroDivisionError"),
    ):
        function = bad
        with pytest.raises(CallbackError, match=message):
            pl.jit(lambda x: p.bind(x))(X)


def test_what_calls_of_python_can_not_do_is_refused() -> None:
    def rule(ctx, x):
        return mlir.emit_python_callback(
            ctx, np.sort, None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False, sharding=1
        )[0]

    with pytest.raises(UnsupportedError, match="places results as the program does"):
        pl.jit(primitive("placed", rule).bind)(X)


def test_tokens_of_effects() -> None:
    tokens = mlir.TokenSet({ordered_io_effect: "a", io_effect: "b"})
    assert tokens.effects() == {ordered_io_effect, io_effect}
    assert tokens.subset([io_effect]).items() == ((io_effect, "b"),)
    assert tokens.update_tokens(mlir.TokenSet({io_effect: "c"})).get(io_effect) == "c"
    assert mlir.lowerable_effects.contains(io_effect)
    assert mlir.lowerable_effects.filter_in([io_effect, 3]) == [io_effect]
    assert mlir.lowerable_effects.filter_not_in([io_effect, 3]) == [3]
    mlir.lowerable_effects.add_type(type(io_effect))
    with pytest.raises(ArgumentTypeError, match=r"derived from `core\.Effect`"):
        mlir.lowerable_effects.add_type(int)


def test_constants_by_handlers() -> None:
    class Pair(tuple[int, int]):
        __slots__ = ()

    def rule(ctx, x):
        with pytest.raises(ArgumentTypeError, match="has 2 values"):
            mlir.ir_constant(Pair([1, 2]))
        values = mlir.ir_constants(Pair([1, 2]), aval="kept")
        again = mlir.ir_constants("y", const_lowering={(id("y"), None): (x, (x,))})
        counts.append((len(values), len(again)))
        return [x]

    counts: list[tuple[int, int]] = []
    handler = lambda pair, aval: [mlir.ir_constant(np.int32(n)) for n in pair]
    mlir.register_constant_handler(Pair, handler)
    pl.jit(primitive("constants", rule).bind)(X)
    assert counts == [(2, 2)]
    assert mlir.unflatten_ir_values_like_types([1, 2, 3], ["a", ("b", "c")]) == [1, (2, 3)]
    with pytest.raises(ArgumentValueError, match="2 values, 1 types"):
        mlir.unflatten_ir_values_like_types([1, 2], ["a"])


def test_bad_rules_of_dead_code_are_refused() -> None:
    p = primitive("bad_rule", lambda ctx, x: [x])
    partial_eval.dce_rules[p] = lambda used, eqn: ([True, False], eqn)
    jaxpr = pl.make_jaxpr(p.bind)(X).jaxpr
    with pytest.raises(ArgumentTypeError, match="dce rule of `bad_rule` must return 1 values"):
        partial_eval.dce_jaxpr(jaxpr, [True])
    del partial_eval.dce_rules[p]
    assert len(partial_eval.dce_jaxpr(jaxpr, [True])[0].eqns) == 1
    assert pl.lax.scan_p in partial_eval.dce_rules
    assert pl.lax.sin_p not in partial_eval.dce_rules


def test_built_in_rules_of_dead_code_can_be_called() -> None:
    jaxpr = pl.make_jaxpr(pl.jit(lambda x, y: (x + 1, y + 1)))(1, 2).jaxpr
    rule = partial_eval.dce_rules[jaxpr.eqns[0].primitive]
    used, eqn = rule([True, False], jaxpr.eqns[0])
    assert used == [True, False]
    assert len(eqn.outvars) == 1


def test_dead_code_of_traced_functions() -> None:
    from pellucid.extend.linear_util import wrap_init

    def f(x):
        pl.numpy.cos(x + X)
        return [pl.numpy.sin(x)]

    whole, _, consts = partial_eval.trace_to_jaxpr_dynamic(wrap_init(f), [pl.typeof(X)])
    assert (len(whole.eqns), len(consts)) == (3, 1)
    live, _, consts = partial_eval.trace_to_jaxpr_dynamic(
        wrap_init(f), [pl.typeof(X)], auto_dce=True
    )
    assert (len(live.eqns), len(consts)) == (1, 0)
    part = partial_eval.trace_to_jaxpr_dynamic(
        wrap_init(f), [pl.typeof(X)] * 2, keep_inputs=[False, True]
    )[0]
    assert len(part.invars) == 2


def test_a_rule_calls_others_in_a_context_of_their_own() -> None:
    double = mlir.lower_fun(lambda x: x + x, multiple_results=False)
    seen = []

    def inner(ctx, x):
        seen.append((ctx.primitive, ctx.avals_in, ctx.avals_out, ctx.platforms))
        return double(ctx, x)

    def rule(ctx, x):
        small = PROGRAM.in_avals[0].update(shape=(2,))
        y = ctx.constant(X[:2])
        types = {"avals_in": (small,), "avals_out": (small,)}
        [z] = inner(ctx.replace(primitive=None, **types), y)
        [again] = inner(ctx.replace(**types).replace(primitive=double_p), z)
        assert again.type == y.type
        seen.append((ctx.primitive, ctx.avals_in, ctx.avals_out, ctx.platforms))
        assert ctx.replace(primitive=None).module_context is ctx
        changed = ctx.replace(avals_in=())
        changed.loop_depth += 1
        assert ctx.loop_depth == 1
        changed.loop_depth -= 1
        with pytest.raises(
            ArgumentTypeError, match=r"attributes of one equation.*\n.*got platforms"
        ):
            ctx.replace(platforms=("tpu",))
        return inner(ctx, x)

    double_p, p = Primitive("double"), primitive("outer", rule)
    assert np.array_equal(pl.jit(p.bind)(X), X + X)
    [first, second, outer, last] = seen
    assert (first[0], second[0], outer[0]) == (None, double_p, p)
    assert [a.shape for a in (*first[1], *second[2], *outer[1], *last[2])] == [
        (2,),
        (2,),
        (3,),
        (3,),
    ]
    assert first[3] == outer[3] == last[3]
