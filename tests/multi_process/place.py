"""Where a process of a test is; of no library."""

from typing import NamedTuple


class Place(NamedTuple):
    """Where a process is in its job."""

    address: str
    process: int
    count: int
