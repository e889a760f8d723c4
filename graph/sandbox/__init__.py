"""Isolation of the code that models write."""
