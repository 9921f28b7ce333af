"""`python -m scr.cli` is `scr`, also where the script is not on the path."""

from scr.cli import main

main()
