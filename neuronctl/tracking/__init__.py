"""What became of a job: the questions, the answer, and following it until it ends."""
