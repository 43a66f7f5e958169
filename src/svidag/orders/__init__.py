"""Orders of the variables: masks, permutations and their relaxations."""
