"""What the backup experiment is made of: a tree of files, a line with a length and a width, and one run over it."""
