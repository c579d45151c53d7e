"""The built-in server for people without a key: it searches with the question and shows the passages that fit it best.

`server` speaks the Messages API to the SDK's own transport, `reading` says what a request asks and holds, `passages` picks and
quotes, `facts` fills records and tables. Nothing here knows anything: every word of an answer stands in a result.
"""
