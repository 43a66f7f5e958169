"""Running a fit: the loop, its checkpoint, progress, time limit and rules for when to stop."""
