"""What is read of a run: how well everybody is served, and by what."""
