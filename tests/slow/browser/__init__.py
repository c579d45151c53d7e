"""Tests that look at outputs in a real JupyterLab, in a real Chromium."""
