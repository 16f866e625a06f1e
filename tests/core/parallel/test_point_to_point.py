"""`psend` and `precv`: types, lowering for GPUs, what is refused. No GPU runs them here."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax
from pellucid._machine.base.errors import ArgumentTypeError, CollectiveError, UnsupportedError

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
X = np.arange(8, dtype=np.float32)


def handed_on(x):
    return lax.precv(lax.psend(x, "i", RING), x, "i", RING)


def mapped(f=handed_on):
    auto = (pl.sharding.AxisType.Auto,)
    mesh = pl.make_mesh((4,), ("i",), axis_types=auto, devices=pl.devices()[:4])
    return pl.jit(pl.shard_map(f, mesh=mesh, in_specs=pl.P("i"), out_specs=pl.P("i")))


def test_the_result_is_what_was_sent_in_type_and_varies():
    assert mapped().trace(X).jaxpr.out_avals[0].shape == (8,)


def test_gpus_send_and_receive():
    gpu = pl.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", None, "gpu")
    mesh = pl.sharding.AbstractMesh((4,), ("i",), abstract_device=gpu)
    over_i = pl.NamedSharding(mesh, pl.P("i"))
    function = pl.shard_map(handed_on, mesh=mesh, in_specs=pl.P("i"), out_specs=pl.P("i"))
    text = pl.jit(function).lower(pl.ShapeDtypeStruct((8,), np.float32, sharding=over_i)).as_text()
    assert text.count("source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]>") == 2
    assert '"stablehlo.send"' in text
    assert '"stablehlo.recv"' in text


def test_other_devices_do_not():
    with pytest.raises(
        UnsupportedError, match=r"(?s)psend: devices of the platform 'cpu'.*ppermute"
    ):
        mapped()(X)


def test_what_is_no_token():
    with pytest.raises(ArgumentTypeError, match=r"(?s)precv needs a token.*f32\[2\].*psend"):
        mapped(lambda x: lax.precv(x, x, "i", RING)).trace(X)


@pytest.mark.parametrize("name", ["psend", "precv"])
def test_positions_that_do_not_fit(name):
    call = {
        "psend": lambda x: lax.psend(x, "i", [(0, 4)]),
        "precv": lambda x: lax.precv(lax.create_token(), x, "i", [(0, 4)]),
    }[name]
    with pytest.raises(CollectiveError, match=f"{name}: each position must be the destination"):
        mapped(call).trace(X)
