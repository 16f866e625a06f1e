"""Instructions read from the text of optimized programs."""

from pellucid._machine.xla.hlo import COLLECTIVES
from pellucid._machine.xla.hlo_text import instructions_of, parse

TEXT = """HloModule jit_f

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(f32[] %a, f32[] %b)
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0), metadata={op_name="x"}
  %named = f32[4]{0} negate(f32[4]{0} %x), metadata={op_type="e3" op_name="jit(f)/no all-reduce(x)"}
  %begun = f32[4]{0} all-reduce-start(f32[4]{0} %named), to_apply=%sum, metadata={op_name="jit(f)/psum#e7"}
  %done = f32[4]{0} all-reduce-done(f32[4]{0} %begun), metadata={op_name="jit(f)/psum#e7"}
  ROOT %moved = (f32[4]{0}, f32[4]{0}) collective-permute(f32[4]{0} %done, f32[4]{0} %x), source_target_pairs={{0,1}}, metadata={op_type="e12:" op_name="jit(f)/\\"p\\""}
}
"""


def test_instructions_are_chosen_by_their_opcode():
    chosen = [(each.name, each.equation) for each in instructions_of(TEXT, COLLECTIVES)]
    assert chosen == [("begun", 7), ("moved", 12)]


def test_chosen_instructions_are_those_of_the_whole_module():
    entry, *_ = parse(TEXT)
    by_name = {each.name: each for each in entry.instructions}
    assert list(by_name) == ["x", "named", "begun", "done", "moved"]
    assert all(by_name[each.name] == each for each in instructions_of(TEXT, COLLECTIVES))
    assert (by_name["named"].equation, by_name["begun"].path) == (3, "jit(f)/psum")
    assert by_name["moved"].operands == ["done", "x"]
