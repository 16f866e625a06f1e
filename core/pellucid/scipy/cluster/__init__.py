"""`pellucid.scipy.cluster`: clusters of observations."""

from pellucid.scipy.cluster import vq as vq
