"""Files that survive a crash and are not believed when they were changed: experiments, trainings and tables."""
