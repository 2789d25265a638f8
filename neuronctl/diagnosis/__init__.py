"""Why a job waits or how it ended: the cause, the remedy, and the relevant log lines."""
