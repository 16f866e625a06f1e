"""`pellucid.scipy.sparse`: linear equations with operators; sparse arrays are `pellucid.experimental.sparse`."""

from pellucid.scipy.sparse import linalg as linalg
