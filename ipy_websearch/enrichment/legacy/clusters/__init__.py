"""`cluster=` and Dask DataFrames: rows asked for on the workers of a Dask cluster, under one budget and one rate."""
