"""Which commit of a writer PostgreSQL made last. The one writer of table `last_commit`.

A writer that loses its connection in a commit must know what became of it. PostgreSQL has an answer of its own,
`pg_xact_status`, but after a crash it gives the number of a transaction that left no trace to another one, and then
speaks of that. So each transaction of a writer begins by keeping its number in the row of that writer: the row is
there with everything else that was committed, or not at all, and until the end of the transaction whoever asks waits.
"""

from __future__ import annotations

NUMBER = """
insert into last_commit(writer, number, at)
values (:writer, :number, extract(epoch from clock_timestamp()) * 1000000)
on conflict (writer) do update set number = excluded.number, at = excluded.at"""
#: Waits for the end of the transaction that may be under way, also for one that is the first of its writer.
ASK = """
insert into last_commit(writer, number, at) values (:writer, 0, extract(epoch from clock_timestamp()) * 1000000)
on conflict (writer) do update set at = excluded.at returning number"""
FORGET = "delete from last_commit where writer = :writer"
#: Of those that could not say that they end. One that lives, and wrote nothing for so long, makes its row anew.
FORGET_OLD = "delete from last_commit where at < extract(epoch from clock_timestamp()) * 1000000 - 86400000000"
