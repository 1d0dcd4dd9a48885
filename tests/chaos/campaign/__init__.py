"""A campaign of faults on real processes and servers, and what it left in the log; see `__main__`."""
