"""Brings a ledger's tables to the newest revision. Alembic is imported only when there is something to do."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from farm.ledger.tables import HEAD
from kernelfarm.errors import Code, FarmError


def revision_of(connection: Connection) -> str | None:
    """The revision that the ledger's tables have; None for an empty database."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return None if found is None else str(found)


def upgrade(connection: Connection) -> None:
    """Migrate to `HEAD` inside the connection's transaction; nothing happens when the ledger is there already.

    Raises `FarmError` LEDGER_NEWER when a newer farm made the tables.
    """
    found = revision_of(connection)
    if found == HEAD:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "farm.ledger:migrations")
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise FarmError(
            Code.LEDGER_NEWER,
            f"the ledger has revision {found}",
            f"this farm knows revisions up to {HEAD}",
            "Update kernel-farm, or point FARM_HOME at another folder.",
        )
    command.upgrade(config, "head")
