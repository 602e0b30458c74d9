"""Durability: processes are killed, disks filled, bits flipped, files cut, backups restored, for real."""
