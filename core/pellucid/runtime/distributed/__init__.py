"""Several processes joined into one job: who is there, who is alive, and what they tell each other."""
