"""Functions of neural networks, under the names of `jax.nn`."""

from pellucid._machine.higher_order.staged_functions import give_stages as _give_stages
from pellucid.nn import initializers as initializers
from pellucid.nn.activations import *
from pellucid.nn.attention import *
from pellucid.nn.normalizations import *
from pellucid.nn.scaled_matmul import *
from pellucid.nn.scaled_products import *
from pellucid.numpy.log_sums import logmeanexp as logmeanexp, logsumexp as logsumexp

_give_stages(globals())
