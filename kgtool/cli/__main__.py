"""``python -m kgtool.cli``: the same as the ``kgtool`` script."""

import sys

from kgtool.cli.main import main

sys.exit(main())
