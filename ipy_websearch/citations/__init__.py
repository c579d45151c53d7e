"""Citations: numbering and merging sources (`book`), and holding what was written against what was read (`claims`). Pure.

`check` judges a sentence, `quote_has` a value and its quote; neither asks a model.
"""

from ipy_websearch.citations.book import CitationBook, marks, same_page
from ipy_websearch.citations.claims import check, quote_has

__all__ = ["CitationBook", "check", "marks", "quote_has", "same_page"]
