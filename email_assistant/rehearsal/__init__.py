"""A person's own history, walked in the order of time: what would have been shown to them, against what they did."""
