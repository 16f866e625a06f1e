"""Parts of the core that interpreters and libraries build on, as in the reference."""

import subprocess
import sys

import numpy as np
import pytest
from corpus import extension_points
from message_checks import check_message

import pellucid as pl
from pellucid import core, lax
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError
from pellucid.extend import core as extend_core, source_info_util


@pytest.mark.oracle
@pytest.mark.parametrize("program", extension_points.PROGRAMS)
def test_programs_give_what_the_reference_gives(oracle, program) -> None:
    oracle.check(program, library=pl, fails=program in extension_points.FAIL)


def test_other_params_of_calls_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="`call` calls one function of flat values"):
        core.call(1.0, subfuns=(abs,))
    with pytest.raises(ArgumentTypeError, match="params name"):
        core.call(1.0, name="f")


def test_submodules_are_there_once_the_package_is() -> None:
    code = "import pellucid.extend as e; print(e.core.primitives.jit_p, e.random, e.sharding, e.mlir, e.linear_util)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout


def test_sizes_of_axes_in_scope() -> None:
    def f(x):
        environment = core.trace_ctx.axis_env
        assert environment.axis_sizes == {"i": 3}
        assert environment.axis_size("i") == 3
        assert environment.axis_exists("i")
        assert not environment.axis_exists("j")
        with pytest.raises(ArgumentValueError, match="no axis 'j'"):
            environment.axis_size("j")
        return x

    pl.vmap(f, axis_name="i")(np.ones(3))


def test_a_closed_trace_keeps_none_around_it() -> None:
    traces = []

    def f(x):
        traces.append(core.trace_ctx.trace)
        return x

    pl.vmap(pl.jit(f))(np.ones(3))
    assert type(traces[0]).__name__ == "StagingTrace"
    assert traces[0].parent is None


def test_interpreted_operations_have_the_names_and_lines_of_their_equations() -> None:
    def layer(x):
        with pl.named_scope("layer"):
            return pl.numpy.sin(x)

    (eqn,) = pl.make_jaxpr(layer)(1.0).eqns

    def again(x):
        info = eqn.source_info
        names = source_info_util.current_name_stack() + info.name_stack
        with source_info_util.user_context(info.traceback, name_stack=names):
            return eqn.primitive.bind(x, **eqn.primitive.get_bind_params(eqn.params))

    def model(x):
        with pl.named_scope("model"):
            return again(x)

    (copied,) = pl.make_jaxpr(model)(1.0).eqns
    assert str(copied.source_info.name_stack) == "model/layer"
    assert source_info_util.summarize(copied.source_info) == source_info_util.summarize(
        eqn.source_info
    )
    with (
        pytest.raises(ValueError, match="bad") as caught,
        source_info_util.user_context(eqn.source_info.traceback),
    ):
        raise ValueError("bad")
    assert "return pl.numpy.sin(x)" in caught.value.__notes__[0]


def test_traces_of_users_say_what_they_lack_or_return() -> None:
    class Bare(core.Trace):
        pass

    class Wrong(core.Trace):
        def process_primitive(self, primitive, tracers, params):
            return [1]

    with (
        extend_core.set_current_trace(Bare()),
        pytest.raises(NotImplementedError, match=r"Bare.process_primitive"),
    ):
        lax.sin(1.0)
    with extend_core.set_current_trace(Wrong()):
        check_message(
            lambda: lax.sin(1.0),
            ArgumentTypeError,
            "Wrong.process_primitive of `sin` must return one value",
        )
    squared = pl.custom_vjp(lambda x: x * x)
    squared.defvjp(lambda x: (x * x, x), lambda x, t: (2 * x * t,))
    with (
        extend_core.set_current_trace(Bare()),
        pytest.raises(NotImplementedError, match="custom_vjp_call"),
    ):
        squared(1.0)


def test_equations_outside_of_scopes_have_an_empty_name_stack() -> None:
    (eqn,) = pl.make_jaxpr(pl.lax.sin)(1.0).eqns
    assert str(eqn.source_info.name_stack) == ""
    names = source_info_util.new_name_stack("model") + eqn.source_info.name_stack
    assert str(names) == "model"


def test_traces_of_libraries_interpret_whole_operations_on_keys() -> None:
    names = []

    class Listing(core.Trace):
        def __init__(self, parent):
            super().__init__()
            self.parent = parent

        def process_primitive(self, primitive, tracers, params):
            names.append(primitive.name)
            return primitive.bind_with_trace(self.parent, tracers, None, params)

    key = pl.random.key(0)
    with (
        extend_core.take_current_trace() as parent,
        extend_core.set_current_trace(Listing(parent)),
    ):
        first, _ = pl.random.split(key)
    assert names[0] == "random_split"
    assert "threefry2x32" not in names
    assert (first == pl.random.split(key)[0]).all()
