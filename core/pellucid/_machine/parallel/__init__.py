"""Programs that run once per position along named axes: collectives, `shard_map`, `pmap`."""
