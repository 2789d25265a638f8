"""Why a job waits or how it ended: the cause, the remedy, and its log's telling lines."""
