"""Several processes joined into one job: membership, heartbeats, and agreement on programs."""
