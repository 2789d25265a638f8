"""What can be asked for, on the command line and in files, and what was."""
