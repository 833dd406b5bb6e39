"""Many runs of a program: searches for failures, shrinking, comparisons."""
