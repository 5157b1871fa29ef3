"""egodata: raw egocentric deliveries in, train-ready episodes out.

Importing this package loads none of zarr, lance, av or torch; each loads where it is first needed.
"""

__version__ = "0.1.0"
