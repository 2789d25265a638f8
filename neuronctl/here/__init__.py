"""What can be seen on this machine: files, the allocation one stands in, the program's history."""
