"""What every package uses: errors, units, words, files."""
