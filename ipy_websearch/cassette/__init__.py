"""Cassettes: what a session sends and gets, recorded in one readable file and played back without keys and without a network.

    exchange    one request with what came of it, as values          written   the file's text, entry by entry, and back
    redaction   keys out of everything before it is written          matching  which recorded request is the one asked now
    recorder    lets traffic pass and writes it down                 player    answers from the file alone
    clients     the session's clients with a tape between them and the network

Nothing here is imported or asked before a cassette is used: a session without one has no trace of it.
"""
