"""`pellucid.scipy.spatial.transform`: rotations in three dimensions, and interpolations between them."""

from pellucid.scipy.spatial.transform.interpolation import Slerp as Slerp
from pellucid.scipy.spatial.transform.rotation import Rotation as Rotation

__all__ = ["Rotation", "Slerp"]
