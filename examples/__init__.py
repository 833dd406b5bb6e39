"""Programs written on dhagas as an engineer would write them with threads."""
