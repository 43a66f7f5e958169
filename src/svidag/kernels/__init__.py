"""Code written for the CPU's sake; each module says what it gains."""
