"""Records of programs of libraries: their code is shown as the user's is, with lines, names and scopes."""

import json
import subprocess
import sys

PROGRAM = """
import json, pellucid.as_jax; pellucid.as_jax.install()
import jax, jax.numpy as jnp
from flax import linen as nn
from pellucid import analysis

class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        hidden = nn.relu(nn.Dense(4, name="first")(x))
        return nn.Dense(2)(hidden)

network = Network()
x = jnp.ones((5, 3))
params = network.init(jax.random.key(0), x)

@jax.jit
def loss(params):
    outputs = network.apply(params, x)
    return jnp.sum(outputs ** 2)

record = analysis.program(jax.grad(loss), params)
text, spans, scopes, equations = record.strings, record.spans, record.scopes, record.equations

def calls(span):
    while span >= 0:
        source = record.sources[spans.source[span]]
        line = source.lines[spans.line[span] - source.first_line].strip() if source.lines else ""
        yield source.path, text[spans.function[span]], line, text[spans.variable[span]]
        span = spans.caller[span]

def scope(i):
    return "" if i < 0 else scope(scopes.parent[i]) + "/" + text[scopes.name[i]]

for i, primitive in enumerate(equations.primitive):
    if text[primitive] == "dot_general":
        stack = list(calls(equations.span[i]))
        print(json.dumps([scope(equations.scope[i]), text[equations.transformation[i]], stack]))
"""


def test_equations_have_the_lines_names_and_scopes_of_a_library(tmp_path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    process = subprocess.run([sys.executable, file], check=True, capture_output=True, text=True)
    products = [json.loads(line) for line in process.stdout.splitlines()]
    first, second = "/Network/first", "/Network/Dense_0"
    assert [(scope, transformation) for scope, transformation, _ in products] == [
        (first, ""), (second, ""), (second, "transpose"), (second, "transpose"), (first, "transpose"),
    ]  # fmt: skip
    lines = {
        first: 'hidden = nn.relu(nn.Dense(4, name="first")(x))',
        second: "return nn.Dense(2)(hidden)",
    }
    for scope, _, stack in products:
        path, *inner = stack[0]
        assert path.endswith("flax/linen/linear.py")
        assert inner == ["Dense.__call__", "y = dot_general(", "y"]
        user = [(function, line) for path, function, line, _ in stack if path == str(file)]
        assert user == [
            ("Network.__call__", lines[scope]), ("loss", "outputs = network.apply(params, x)"),
            ("<module>", "record = analysis.program(jax.grad(loss), params)"),
        ]  # fmt: skip
