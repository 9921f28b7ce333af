"""One module per command of `scr`, each with a function of its name."""
