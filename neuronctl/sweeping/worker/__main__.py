"""Start the worker: the script of a sweep's or pipeline's job runs this directory."""

import os
import sys

sys.path[0] = os.path.dirname(sys.path[0])

from worker import main, pipeline_job  # type: ignore[import-not-found]  # noqa: E402

if sys.argv[1] == "pipeline":
    sys.exit(pipeline_job.main(sys.argv[2:]))
sys.exit(main.main(sys.argv[1:]))
