"""Shardings of values are passed to callbacks, and drawn."""

import numpy as np
import pytest
from corpus import inspections
from message_checks import check_message

import pellucid as pl
from pellucid import debug, numpy as jnp
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec as P

MESH = Mesh(np.array(pl.devices()).reshape(4, 2), ("x", "y"))


def placed(*spec):
    return pl.device_put(np.ones((8, 16), np.float32), NamedSharding(MESH, P(*spec)))


@pytest.mark.oracle
@pytest.mark.parametrize(("program", "spec"), inspections.PROGRAMS)
def test_programs_see_what_the_reference_sees(oracle_8_devices, program, spec):
    oracle_8_devices.check(program, *spec, library=pl)


def test_shardings_are_named_by_the_mesh():
    seen = []

    @pl.jit
    def function(x):
        y = jnp.sin(x)
        debug.inspect_array_sharding({"y": y}, callback=seen.append)
        return y @ y.T

    function(placed("x", "y"))
    function(placed("x", "y"))
    assert seen == [NamedSharding(MESH, P("x", "y"))]


def test_programs_of_one_device_and_host_values_have_a_sharding():
    seen = []
    debug.inspect_array_sharding(3.0, callback=seen.append)
    pl.jit(lambda x: debug.inspect_array_sharding(x, callback=seen.append))(
        pl.device_put(1.0, pl.devices()[2])
    )
    assert [s.device_set for s in seen] == [{pl.devices()[0]}, {pl.devices()[2]}]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("spec", [("x", "y"), None])
def test_a_function_that_fails_is_named(compiled, spec):
    def look(sharding):
        raise ZeroDivisionError("none left")

    def function(x):
        debug.inspect_array_sharding(x, callback=look)

    x = np.ones(3) if spec is None else placed(*spec)
    check_message(
        lambda: (pl.jit(function) if compiled else function)(x),
        pl.errors.PellucidError,
        "debug.inspect_array_sharding: `look` raised ZeroDivisionError.",
        "none left",
        'raise ZeroDivisionError("none left")',
    )


def test_batches_are_not_inspected():
    check_message(
        lambda: pl.vmap(lambda x: debug.inspect_array_sharding(x, callback=print))(np.ones(3)),
        ValueError,
        "vmap of debug.inspect_array_sharding",
        "outside of `vmap`",
    )


def test_callbacks_are_functions():
    check_message(
        lambda: debug.inspect_array_sharding(1.0, callback=3), TypeError, "inspect_array_sharding"
    )


# Drawings -------------------------------------------------------------------------------------------


def drawn(capsys, shape, *spec, **options):
    debug.visualize_sharding(shape, NamedSharding(MESH, P(*spec)), **options)
    return capsys.readouterr().out.splitlines()


def test_rows_and_columns_are_drawn(capsys):
    assert drawn(capsys, (8, 8), "x", "y", scale=0.4) == [
        "┌─────────┬─────────┐",
        "│  CPU 0  │  CPU 1  │",
        "├─────────┼─────────┤",
        "│  CPU 2  │  CPU 3  │",
        "├─────────┼─────────┤",
        "│  CPU 4  │  CPU 5  │",
        "├─────────┼─────────┤",
        "│  CPU 6  │  CPU 7  │",
        "└─────────┴─────────┘",
    ]


def test_devices_that_hold_the_same_part_share_a_cell(capsys):
    assert drawn(capsys, (4,), "y", scale=0.1) == [
        "┌─────────────┬─────────────┐",
        "│ CPU 0,2,4,6 │ CPU 1,3,5,7 │",
        "└─────────────┴─────────────┘",
    ]


def test_proportions_and_the_widest_line_are_kept(capsys):
    tall = drawn(capsys, (80, 8), "x")
    assert len(tall) == 4 * 2 + 5
    assert {len(line) for line in tall} == {11}
    wide = drawn(capsys, (8, 8000), "x", "y")
    assert {len(line) for line in wide} == {79}
    narrow = drawn(capsys, (8, 8), "x", "y", max_width=13)
    assert {len(line) for line in narrow} == {13}


def test_labels_are_wrapped_where_cells_are_narrow(capsys):
    assert drawn(capsys, (8,), max_width=11) == [
        "┌─────────┐",
        "│  CPU 0, │",
        "│   1,2,  │",
        "│   3,4,  │",
        "│  5,6,7  │",
        "└─────────┘",
    ]


def test_colours_come_with_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    painted = drawn(capsys, (8,), "y", color_map=lambda share: (share, share, share, 1.0))
    assert "\x1b[48;2;0;0;0;97m" in painted[1]
    assert "\x1b[48;2;255;255;255;30m" in painted[1]
    assert "\x1b" not in "".join(drawn(capsys, (8,), "y", use_color=False))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "".join(drawn(capsys, (8,), "y"))


def test_an_array_in_a_program_is_drawn(capsys):
    pl.jit(debug.visualize_array_sharding)(placed("x", "y"))
    assert capsys.readouterr().out.count("CPU") == 8


@pytest.mark.parametrize("shape", [(), (2, 2, 2)])
def test_other_ranks_are_drawn_elsewhere(shape):
    for use in (
        lambda: debug.visualize_sharding(shape, NamedSharding(MESH, P())),
        lambda: debug.visualize_array_sharding(np.ones(shape)),
    ):
        check_message(use, ValueError, f"shape: {shape}", "pl.viz.sharding(array)")


def test_meshes_have_devices():
    sharding = NamedSharding(MESH.abstract_mesh, P("x"))
    check_message(
        lambda: debug.visualize_sharding((8,), sharding), ValueError, "a sharding over devices"
    )
