"""Sweeps: many tasks of one job, in as few jobs as the cluster lets a user have."""
