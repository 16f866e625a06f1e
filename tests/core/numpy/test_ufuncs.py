"""Universal functions: what of them is fixed."""

import pytest

import pellucid as pl
import pellucid.numpy as jnp


@pytest.mark.parametrize("name", ["nin", "nout", "nargs", "identity"])
def test_facts_of_a_ufunc_can_not_be_changed(name) -> None:
    for function in (jnp.add, jnp.frompyfunc(lambda x, y: x, 2, 1)):
        before = getattr(function, name)
        for change in (lambda f: setattr(f, name, 5), lambda f: delattr(f, name)):
            with pytest.raises(AttributeError, match=name):
                change(function)
        assert getattr(function, name) == before
    jitted = pl.jit(lambda x: x)
    assert not hasattr(jitted, name)
    setattr(jitted, name, 5)
    assert getattr(jitted, name) == 5
    delattr(jitted, name)
    assert not hasattr(jitted, name)
