"""Random bits from counters: generators whose bits are those of an element's place, computed in blocks."""
