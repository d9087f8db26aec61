"""The profiles that ask PostgreSQL: async-db, and crud with its cache in Redis, which all workers share."""

import json
import os

from answers import JSON, OK, TEXT, as_json, fields_of
from psycopg import OperationalError
from psycopg_pool import ConnectionPool
from redis import Redis

COLUMNS = "id, name, category, price, quantity, active, tags, rating_score, rating_count"
RANGE = f"SELECT {COLUMNS} FROM items WHERE price BETWEEN %s AND %s LIMIT %s"
PAGE = f"SELECT {COLUMNS} FROM items WHERE category = %s ORDER BY id LIMIT %s OFFSET %s"
ONE = f"SELECT {COLUMNS} FROM items WHERE id = %s"
CREATE = """
    INSERT INTO items (id, name, category, price, quantity, active, tags, rating_score, rating_count)
    VALUES (%(id)s, %(name)s, %(category)s, %(price)s, %(quantity)s, true, '[]', 0, 0)
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, price = excluded.price, quantity = excluded.quantity
"""
UPDATE = "UPDATE items SET name = %(name)s, price = %(price)s, quantity = %(quantity)s WHERE id = %(id)s"
CACHE_MILLISECONDS = 200


# this worker's share of the connections that the database allows
SHARE = int(os.environ.get("DATABASE_MAX_CONN", 64)) * 9 // 10 // len(os.sched_getaffinity(0))
POOL = ConnectionPool(
    os.environ["DATABASE_URL"], kwargs={"autocommit": True}, min_size=1, max_size=max(1, SHARE), open=True
)
CACHE = Redis.from_url(os.environ["REDIS_URL"]) if "REDIS_URL" in os.environ else None


def execute(query, values):
    with POOL.connection() as connection:
        return connection.execute(query, values)


def item(row):
    number, name, category, price, quantity, active, tags, score, count = row
    return {
        "id": number,
        "name": name,
        "category": category,
        "price": price,
        "quantity": quantity,
        "active": active,
        "tags": tags,
        "rating": {"score": score, "count": count},
    }


def number(fields, name, default):
    return int(fields.get(name, default))


def found(environ, argument):
    fields = fields_of(environ)
    limit = min(max(number(fields, "limit", 50), 1), 50)
    try:
        rows = execute(RANGE, (number(fields, "min", 10), number(fields, "max", 50), limit)).fetchall()
    except OperationalError:  # HttpArena wants an empty list while there is no database
        rows = []
    return OK, JSON, as_json({"items": [item(row) for row in rows], "count": len(rows)})


def crud(environ, argument):
    """/crud/items, and /crud/items/NUMBER."""
    kind, _, name = argument.partition("/")
    method = environ["REQUEST_METHOD"]
    handler = HANDLERS.get((method, bool(name)))
    if kind != "items" or handler is None:
        return "404 Not Found", TEXT, b"Not Found"
    return handler(environ, int(name or 0))


def page(environ, _):
    fields = fields_of(environ)
    limit = min(max(number(fields, "limit", 10), 1), 50)
    which = max(number(fields, "page", 1), 1)
    rows = execute(PAGE, (fields.get("category", "electronics"), limit, (which - 1) * limit)).fetchall()
    listed = {"items": [item(row) for row in rows], "total": len(rows), "page": which, "limit": limit}
    return OK, JSON, as_json(listed)


def read(environ, which):
    cached = CACHE.get(which) if CACHE else None
    if cached is not None:
        return OK, [*JSON, ("X-Cache", "HIT")], cached
    row = execute(ONE, (which,)).fetchone()
    if row is None:
        return "404 Not Found", TEXT, b"Not Found"
    body = as_json(item(row))
    if CACHE:
        CACHE.set(which, body, px=CACHE_MILLISECONDS)
    return OK, [*JSON, ("X-Cache", "MISS")], body


def create(environ, _):
    sent = {"category": "test", **json.loads(environ["wsgi.input"].read())}
    execute(CREATE, sent)
    return "201 Created", JSON, as_json(sent)


def update(environ, which):
    sent = {**json.loads(environ["wsgi.input"].read()), "id": which}
    if execute(UPDATE, sent).rowcount == 0:
        return "404 Not Found", TEXT, b"Not Found"
    if CACHE:
        CACHE.delete(which)
    return OK, JSON, as_json(sent)


HANDLERS = {
    ("GET", False): page,
    ("GET", True): read,
    ("POST", False): create,
    ("PUT", True): update,
}
