"""A small transformer of penzai, whose blocks are one scanned stack, learns to go on with a sequence; a layer is then patched.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/penzai_transformer.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from penzai import pz
from penzai.models.transformer.variants import llamalike_common as llama
from penzai.toolshed import basic_training


def model(key: jax.Array):
    """A transformer of three blocks over nine tokens."""
    config = llama.LlamalikeTransformerConfig(
        num_kv_heads=2, query_head_multiplier=2, embedding_dim=16, projection_dim=4, mlp_hidden_dim=32,
        num_decoder_blocks=3, vocab_size=9, mlp_variant="swiglu", tie_embedder_and_logits=False, use_layer_stack=True,
    )  # fmt: skip
    return llama.build_llamalike_transformer(config, init_base_rng=key)


def cross_entropy(model, rng, state, tokens):
    """How far the predictions of the next tokens are off."""
    logits = model(tokens[{"seq": pz.slice[:-1]}], token_positions=pz.nx.arange("seq", 11))
    logarithms = pz.nx.nmap(jax.nn.log_softmax)(logits.untag("vocabulary")).tag("vocabulary")
    wanted = tokens[{"seq": pz.slice[1:]}]
    picked = pz.nx.nmap(lambda row, token: row[token])(logarithms.untag("vocabulary"), wanted)
    loss = -picked.untag("batch", "seq").mean().unwrap()
    return loss, state, {"loss": loss}


def main(steps: int = 60) -> list[float]:
    """Trains for some steps and returns the losses."""
    random = np.random.default_rng(0)
    rows = (random.integers(0, 9, (32, 1)) + random.integers(1, 3, (32, 1)) * np.arange(12)) % 9
    tokens = pz.nx.wrap(jnp.asarray(rows, jnp.int32), "batch", "seq")
    trainer = basic_training.StatefulTrainer.build(
        root_rng=jax.random.key(1), model=model(jax.random.key(0)), optimizer_def=optax.adam(1e-2), loss_fn=cross_entropy
    )  # fmt: skip
    losses = [float(trainer.step(tokens=tokens)["loss"]) for _ in range(steps)]
    frozen = pz.freeze_params(trainer.model)
    patched = pz.select(frozen).at_instances_of(pz.nn.Softmax).apply(lambda layer: layer)
    inputs = tokens[{"seq": pz.slice[:-1]}]
    again = patched(inputs, token_positions=pz.nx.arange("seq", 11))
    assert dict(again.named_shape) == {"batch": 32, "seq": 11, "vocabulary": 9}
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
