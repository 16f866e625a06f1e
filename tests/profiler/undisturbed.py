"""Times of sessions as they are where nothing else runs: of each instruction its shortest run."""

import numpy as np

from pellucid.profiler import Session


def share_without_line(session: Session) -> float:
    """Share of the operations' time that is no line's, which one interrupted operation doesn't change."""
    shortest = np.full(len(session.infos), np.inf)
    np.minimum.at(shortest, session.info_of_operation, session.seconds_of_operation)
    lost = np.array(
        [
            1 - sum(share.share for share in info.shares if share.place is not None)
            for info in session.infos
        ]
    )
    return float((shortest * lost).sum() / shortest.sum())
