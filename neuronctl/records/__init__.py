"""Job records: one private file per job, without secrets, even if a submission is interrupted."""
