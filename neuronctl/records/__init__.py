"""What was submitted: one private file a job, without its secrets, also where it was cut off."""
