"""Cassettes: what a session sends and gets, recorded in one file and replayed without keys and without a network.

    recording  a session's recorder or player, and the session's parts that are exchanged while it runs
    traffic    `Recorder` lets requests pass and writes them down, `Player` answers from the file; both behind the same clients
    match      which recorded request is the one that is asked now, and the nearest one when there is none
    format     the file: JSON Lines, one exchange a line, without keys

Nothing here is imported before a cassette is used.
"""
