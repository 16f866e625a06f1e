"""`pellucid.scipy.ndimage`: elements of arrays between their elements."""

from pellucid.scipy.ndimage.interpolation import map_coordinates as map_coordinates

__all__ = ["map_coordinates"]
