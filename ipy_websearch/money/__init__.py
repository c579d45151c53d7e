"""Everything about money, in one place.

`prices` says what a request or a call costs, `ledger` keeps one row for each of them in SQLite, `budget` reserves money before
it is spent, `booking` turns events into rows, `report` sums the rows up, and `estimate` says what a question may cost.
"""
