"""Files that survive a crash: experiments, finished trainings and their keys."""
