"""Cassettes: what a session sends and gets, recorded in one file and replayed without keys and without a network.

    recording  a session's recorder or player, and the clients that stand in front of the session's own while it runs
    format     the file: JSON Lines, one exchange a line, without keys; and which of them is the one that is asked now

Nothing here is imported before a cassette is used.
"""
