"""Programs drawn at random from tables of what is new, as texts that a reader can run."""
