"""``python -m arraylearn`` is the command line."""

import sys

from arraylearn.cli import main

sys.exit(main())
