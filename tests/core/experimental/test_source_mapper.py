"""Source maps of each pass lead back to the expressions of the user."""

import json

import numpy as np
import pytest

import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentValueError
from pellucid.experimental import source_mapper

X = np.ones((3, 3), np.float32)


def f(x, y):
    return jnp.sin(x) @ y


@pytest.mark.parametrize("name", [each.name for each in source_mapper.all_passes()])
def test_lines_come_from_their_expressions(name) -> None:
    [dump] = source_mapper.generate_sourcemaps(f, source_mapper.filter_passes(name))(X, X)
    assert dump.pass_name == name
    source_map = source_mapper.SourceMap.from_json(dump.source_map.to_json())
    assert source_map == dump.source_map
    lines = dump.generated_code.split("\n")
    assert len(lines) == len(source_map.mappings)
    places = {}
    source = line = column = 0
    for text, segments in zip(lines, source_map.mappings, strict=True):
        for segment in segments:
            source, line, column = source + segment[1], line + segment[2], column + segment[3]
            places[text] = (source_map.sources[source], line + 1, column)
            assert text[segment[0]] != " "
    for word in ("sin", "dot"):
        assert any(word in text for text in places)
    assert set(places.values()) == {(__file__, f.__code__.co_firstlineno + 1, len("    return "))}


def test_options_reach_the_passes() -> None:
    generate = source_mapper.generate_sourcemaps(
        f, source_mapper.filter_passes("hlo:optimized"), xla_compiler_flags={"xla_no_such": 1}
    )
    with pytest.raises(Exception, match="xla_no_such"):
        generate(X, X)
    compiled = source_mapper.compile_with_env(
        f, (X, X), {}, {"default_matmul_precision": "highest"}, {}
    )
    np.testing.assert_allclose(compiled(X, X), np.sin(X) @ X, rtol=1e-6)


def test_passes_are_registered_once() -> None:
    [first, *_] = source_mapper.all_passes()
    with pytest.raises(ArgumentValueError, match=r"pass of this name.*\n.*jaxpr"):
        source_mapper.register_pass(first)


def test_numbers_are_encoded_as_the_standard_says() -> None:
    """The reference's text of the same segments."""
    generator = source_mapper.MappingsGenerator()
    for line in ([(0, 0, 1, 2), (4, 0, 2, 3)], [(5, 0, 2, 3, 1)], [(1, 0, 700, 0)]):
        generator.new_group()
        for segment in line:
            generator.new_segment(*segment)
    mappings = generator.mappings()
    assert mappings == [[(0, 0, 1, 2), (4, 0, 1, 1)], [(5, 0, 0, 0, 1)], [(1, 0, 698, -3)]]
    source_map = source_mapper.SourceMap(3, ["a"], ["b"], [], mappings)
    encoded = json.loads(source_map.to_json())["mappings"]
    assert encoded == "AACE,IACC;KAAAC;CA0rBH"
    assert source_mapper.SourceMap.from_json(source_map.to_json()) == source_map
    with pytest.raises(ArgumentValueError, match="1, 4 or 5 numbers"):
        generator.new_segment(1, 2)
    with pytest.raises(ArgumentValueError, match="encodes no number"):
        source_mapper.SourceMap.from_json(source_map.to_json().replace("AACE", "A*CE"))


def test_locations_of_mlir_are_followed() -> None:
    text = """  %0 = a loc(#loc4)
  %1 = b loc(#loc5)
  %2 = c
#loc1 = loc("a.py":3:4 to :9)
#loc2 = loc("f"(#loc1))
#loc3 = loc(callsite(#loc2 at #loc1))
#loc4 = loc("sin"(#loc3))
#loc5 = loc(unknown)"""
    source_map = source_mapper.create_mlir_sourcemap(text)
    assert (source_map.sources, source_map.mappings[:3]) == (["a.py"], [[(2, 0, 2, 4)], [], []])
