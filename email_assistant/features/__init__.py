"""What the program works without: each folder is one feature, and whoever deletes the folder has removed it."""
