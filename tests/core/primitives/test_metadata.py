"""Metadata that a user gives operations reaches XLA."""

import numpy as np
import pytest
from corpus import metadata_programs

import pellucid as pl
from pellucid.experimental.xla_metadata import set_xla_metadata


@pytest.mark.oracle
@pytest.mark.parametrize(("program", "arguments"), metadata_programs.PROGRAMS)
def test_programs_say_what_the_reference_says(oracle, program, arguments):
    oracle.check(program, *arguments, library=pl)


def test_derivatives_of_operations_have_their_metadata():
    def function(x):
        with set_xla_metadata(layer="first"):
            return pl.lax.sin(x)

    text = pl.jit(pl.grad(function)).lower(1.0).as_text()
    assert 'stablehlo.cosine %arg0 {mhlo.frontend_attributes = {layer = "first"}}' in text


def test_metadata_survives_compilation_and_leaves_names_alone():
    def function(x):
        with pl.named_scope("outer"), set_xla_metadata(layer="first"):
            return pl.lax.sin(x)

    compiled = pl.jit(function).lower(np.ones(3, np.float32)).compile().as_text()
    assert 'frontend_attributes={layer="first"}' in compiled
    assert "jit(function)/outer/sin" in compiled


def test_a_value_that_no_operation_computes_is_left_alone():
    assert "frontend" not in pl.jit(lambda x: set_xla_metadata(x, a=1)).lower(1.0).as_text()
