"""Citations: numbering and merging sources (`book`), and holding what was written against what was read (`claims`). Pure.

`check` judges a sentence, `quote_has` a value and its quote; neither asks a model.
"""

from ipy_websearch.citations.book import SENTENCE_END, CitationBook
from ipy_websearch.citations.claims import check, quote_has

__all__ = ["SENTENCE_END", "CitationBook", "check", "quote_has"]
