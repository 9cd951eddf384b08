"""What the program costs and how it holds out when there is much of everything: one figure for each promise, beside the
bare graph or the ceiling that it is held against. The program runs as a process of its own; Google is the sandbox."""
