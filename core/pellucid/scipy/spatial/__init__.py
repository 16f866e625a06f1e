"""`pellucid.scipy.spatial`: rotations in space."""

from pellucid.scipy.spatial import transform as transform
