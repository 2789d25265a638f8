"""Servers in jobs: recipes, the job of one, and how it is reached."""
