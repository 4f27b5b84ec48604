"""Files: paths to text, with every version kept."""
