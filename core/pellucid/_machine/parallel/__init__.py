"""Programs that run once for each position along named axes: collectives, `shard_map`, `pmap`."""
