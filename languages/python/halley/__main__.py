"""Serves one function to Halley: python3 -m halley MODULE[:FUNCTION]"""

import sys

if sys.version_info < (3, 9):
    sys.exit("halley needs Python 3.9 or later, and this is Python %d.%d: name a newer interpreter in the command" % sys.version_info[:2])

from ._serve import main

main(sys.argv[1:])
