"""One training, and running many of them: in this process, in processes, on a Dask client, or as a fleet on a GPU."""
