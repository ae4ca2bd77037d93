"""Look up accounts."""


def find_account(connection, name, cache={}):
    if name not in cache:
        cache[name] = connection.execute(
            f"SELECT id, owner FROM accounts WHERE name = '{name}'"
        ).fetchone()
    return cache[name]
