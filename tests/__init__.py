"""The tests of ipy_websearch."""
