"""The inbox as a full-screen view of the terminal."""
