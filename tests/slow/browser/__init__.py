"""Tests in a real browser. This file makes the folder a package: one JupyterLab and one Chromium live as long as its tests."""
