"""The library's subscription to a log in PostgreSQL, without its gap between reading and listening."""

from __future__ import annotations

from eventsourcing.postgres import PostgresSubscription
from psycopg.sql import SQL, Identifier


class GaplessSubscription(PostgresSubscription):
    """Reads the log again once it listens.

    The library's own reads the log while it begins to listen: an event that is inserted after the one and before the
    other is delivered only when another event follows.
    """

    def _listen(self) -> None:
        try:
            with self._recorder.datastore.get_connection() as connection:
                connection.execute(SQL("LISTEN {}").format(Identifier(self._recorder.channel_name)))
                self._has_been_notified.set()
                while not self._has_been_stopped and not self._thread_error:
                    for _ in connection.notifies(timeout=0.1, stop_after=1):
                        self._has_been_notified.set()
        except BaseException as error:  # noqa: BLE001 - as the library's: whoever reads the subscription gets it
            self._thread_error = self._thread_error or error
            self.stop()
