"""What is tried, where it runs, and how the choice is made."""
