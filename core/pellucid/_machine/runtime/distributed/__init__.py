"""Jobs of several processes: membership, heartbeats, and agreement on programs."""
