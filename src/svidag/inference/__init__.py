"""Moving orders and training guides: the algorithms, the one loop and what surrounds it."""
