"""What keeps a collection whole: checks of its files, and backups."""
