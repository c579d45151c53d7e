"""Enrichment, at the public door."""
