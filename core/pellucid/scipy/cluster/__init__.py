"""`pellucid.scipy.cluster`: clusters of observations."""

from pellucid.scipy.cluster import vq as vq

__all__ = ["vq"]
