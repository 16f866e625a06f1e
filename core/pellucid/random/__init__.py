"""`pellucid.random`: keys and distributions. Equal keys give equal numbers, on every device and in every program."""

from pellucid.random.continuous import *
from pellucid.random.counts import *
from pellucid.random.gamma import *
from pellucid.random.keys import *
from pellucid.random.matrices import *
from pellucid.random.shuffling import *
from pellucid.random.uniform import *
