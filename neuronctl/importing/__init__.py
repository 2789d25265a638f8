"""Drafts a job file from somebody's batch script: what it says, and what it cannot say."""
