"""The machine around the mathematics: files, signals, progress bars and text tables."""
