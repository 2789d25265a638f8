"""Servers in jobs: their recipes, the job that runs a server, and how users reach it."""
