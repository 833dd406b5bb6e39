"""Requirements on the interpreter, and the guards that keep lines atomic on builds without the interpreter lock."""
