"""What the command line prints, and how: on a terminal, as plain lines, or as JSON."""
