"""The built-in server for people without a key: it searches with the question and shows the passages that fit it best.

`server` speaks the Messages API to the SDK's own transport, `rules` says what the API refuses, `passages` reads what a request
asks, picks and quotes, `facts` fills records and tables. Nothing here knows anything: each word of an answer is in a result.
"""
