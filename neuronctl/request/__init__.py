"""Job requests: the options of a job, and what a user requested with them."""
