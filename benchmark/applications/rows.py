"""The database and Redis, as the sites of Flask and of FastAPI use them: SQLAlchemy's ORM and redis-py."""

import hashlib
import hmac
import json
import os
import secrets

import redis
from asked import BATCH, ITERATIONS, changed, chosen
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

POOL = 20
"""Connections of a process, as many as peers that have threads get threads at most."""
PORT = os.environ["DATABASE_PORT"]
engine = create_engine(
    f"postgresql+psycopg2://postgres@127.0.0.1:{PORT}/postgres", pool_size=POOL, max_overflow=0
)
store = redis.Redis(port=int(os.environ["REDIS_PORT"]))


class Base(DeclarativeBase):
    pass


class World(Base):
    __tablename__ = "world"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int]

    def as_json(self):
        return {"id": self.id, "number": self.number}


class Fortune(Base):
    __tablename__ = "fortune"
    id: Mapped[int] = mapped_column(primary_key=True)
    message: Mapped[str]


class Account(Base):
    __tablename__ = "account"
    name: Mapped[str] = mapped_column(primary_key=True)
    password: Mapped[str]


def single(number):
    with Session(engine) as session:
        return session.get_one(World, chosen(number)[0]).as_json()


def queries(number):
    with Session(engine) as session:
        return [session.get_one(World, row).as_json() for row in chosen(number)]


def updates(number):
    with Session(engine) as session:
        worlds = [session.get_one(World, row) for row in changed(number)]
        for world in worlds:
            world.number = number
        found = [world.as_json() for world in worlds]
        session.commit()
    return found


def fortunes():
    with Session(engine) as session:
        found = list(session.scalars(select(Fortune)))
    found.append(Fortune(id=0, message="Added for this request."))
    return sorted(found, key=lambda fortune: fortune.message)


def cached(number):
    key = f"rows:{number}"
    found = store.get(key)
    if found is None:
        found = json.dumps([number] * BATCH)
        store.set(key, found, ex=3600)
    return json.loads(found)


def login(name, password):
    """The key of a session."""
    with Session(engine) as session:
        salt, _, known = session.get_one(Account, name).password.partition("$")
    given = hashlib.pbkdf2_hmac("sha256", password.encode(), salt.encode(), ITERATIONS).hex()
    if not hmac.compare_digest(given, known):
        raise PermissionError(name)
    key = secrets.token_urlsafe()
    store.set(f"session:{key}", json.dumps({"user": name}), ex=3600)
    return key
