"""Start the worker: the script of a sweep's or pipeline's job runs this directory."""

import os
import sys

sys.path[0] = os.path.dirname(sys.path[0])

from worker.main import main  # type: ignore[import-not-found]  # noqa: E402

sys.exit(main(sys.argv[1:]))
