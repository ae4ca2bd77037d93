"""The providers that ship, one file each."""
