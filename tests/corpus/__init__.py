"""Programs that take the array library as their first argument; see `oracle`."""
