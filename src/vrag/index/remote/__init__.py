"""Collections beyond this machine: object storage, Ray clusters and Qdrant."""
