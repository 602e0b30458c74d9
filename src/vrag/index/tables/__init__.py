"""Durable tables: reading and writing, the records of their files, copies for reading, and recovery."""
