"""Sample comparisons of runs, and explanations of gradients."""

from __future__ import annotations

from pellucid.introspect.schema import SourceRecord
from pellucid_kernel.debug.schema import (
    ComparedEquationColumns,
    CotangentColumns,
    DivergenceRecord,
    FindingRecord,
    GradientColumns,
    GradientRecord,
    NamedValueRecord,
    UnequalOperationColumns,
    UnequalRunsRecord,
    UserLineColumns,
)
from tests.introspect.sample_arrays import plane


def places(cell: str, lines: list[int]) -> UserLineColumns:
    """Lines of one cell; of its text only the first lines are known."""
    source = SourceRecord(
        name=cell, path=f"/tmp/{cell}.py", cell_id="c3", execution_count=int(cell[3]), first_line=1,
        lines=["def layer(w, c):"],
    )  # fmt: skip
    return UserLineColumns(sources=[source], source=[0] * len(lines), line=lines)


def divergence(count: int = 40) -> DivergenceRecord:
    """Errors that begin at the sixth equation, grow, and end in an infinite one."""
    errors = [0.0] * 5 + [1e-7 * 1.6 ** min(i, 33) for i in range(count - 6)]
    return DivergenceRecord(
        a="float16",
        b="float32",
        equations=ComparedEquationColumns(
            primitive=[("dot_general", "tanh", "<b>add</b>")[i % 3] for i in range(count)],
            line=[f"In[3], line {i % 7 + 1}: `layer`" for i in range(count)],
            error=[*errors, None],
            operand_error=[0.0, *errors],
        ),
        places=places("In[3]", [i % 7 + 1 for i in range(count)]),
        unmatched=2,
    )


def equal() -> DivergenceRecord:
    """Runs that are equal to the bit."""
    columns = ComparedEquationColumns(
        primitive=["sin"], line=[""], error=[0.0], operand_error=[0.0]
    )
    return DivergenceRecord(
        a="jit", b="eager", equations=columns, places=places("In[3]", []), unmatched=0
    )


def gradient() -> GradientRecord:
    """A NaN that begins at the square root, and an argument of which the result doesn't depend."""
    return GradientRecord(
        cotangents=CotangentColumns(
            line=[
                "In[2], line 9: `loss`",
                "In[2], line 4: `<i>layer</i>`",
                "In[2], line 6: `loss`",
            ],
            primitive=["mul", "dot_general", "mul"],
            norm=[1.0, 250.0, 0.5],
            fault=["", "", "NaN"],
        ),
        places=places("In[2]", [9, 4, 6]),
        gradients=GradientColumns(
            name=["args[0]['w']", "args[1]"],
            norm=[0.25, 0.0],
            fault=["NaN", "zero"],
            path=[["`mul`: loss (In[2]:6)", "`dot_general`: layer (In[2]:4)"], []],
        ),
        operands=[["f32[3] in [0, 1]", "f32[3] in [0, 0], 1 infinite"], []],
        within="",
    )


def finding() -> FindingRecord:
    """A NaN in the third iteration of a loop, within a batch."""
    return FindingRecord(
        function="<b>loss</b>", primitive="log", is_backward=False, n_elements=1, size=6,
        index=[0, 2], lanes=["lane 3 of 8"], iterations=[2], way=places("In[2]", [9, 4]),
        functions=["<b>loss</b>", "body  iteration 2 of 4"], operands=[plane()], result=plane(),
    )  # fmt: skip


def unequal_runs() -> UnequalRunsRecord:
    """A sum that is another in some runs, and what is computed from it."""
    return UnequalRunsRecord(
        function="<b>loss</b>", runs="5 runs", primitive="scatter-add",
        says="5 runs of <b>loss</b> don't repeat from `scatter-add` on", way=places("In[2]", [9, 4]),
        functions=["<b>loss</b>", "body"],
        operations=UnequalOperationColumns(
            primitive=["scatter-add", "reduce_sum"], line=["In[2], line 4: <i>sums</i>", "In[2], line 9: <i>sums</i>"],
            runs=[4, 2], ulps=[3.0, None], begins=[True, False],
        ),
        places=places("In[2]", [4, 9]),
        values=[NamedValueRecord(name=name, values=plane()) for name in ("operand 0", "result in the first run")],
    )  # fmt: skip


def no_gradients() -> GradientRecord:
    """The gradient of no argument."""
    return GradientRecord(
        cotangents=CotangentColumns(line=[], primitive=[], norm=[], fault=[]),
        places=places("In[2]", []),
        gradients=GradientColumns(name=[], norm=[], fault=[], path=[]),
        operands=[],
        within="",
    )
