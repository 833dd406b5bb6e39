"""Many runs: searches, shrinking, comparisons."""
