"""From options to a job in the queue: plan, judge, submit, record. Nothing here prints."""
