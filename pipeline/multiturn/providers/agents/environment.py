"""The environment variables that an agent inherits, and the values among all that are hidden."""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from multiturn.providers.secrets import is_secret, passwords_in

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_INHERITED = (
    *("PATH", "HOME", "USER", "SHELL", "LANG", "LC_*", "TERM", "TMPDIR", "TZ", "XDG_*"),
    *_PROXIES,
    *map(str.lower, _PROXIES),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
    "CODEX_HOME",
    # Windows, where Python has all names in capitals
    *("SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PATHEXT", "COMSPEC"),
)
_SHORTEST_KEY = 8
_KEY = re.compile(r"(?:^|_)(?:PAT|JWT|AUTH|AUTHORIZATION|BEARER|COOKIES?|DSN|CONNECTION_STRING)$")
ADVICE = "an agent inherits few environment variables; name others that it needs in pass_env"


def inherited(pass_env: Sequence[str]) -> dict[str, str]:
    """Return the variables that an agent inherits: a fixed list, and what ``pass_env`` matches."""
    globs = (*_INHERITED, *pass_env)
    return {name: value for name, value in os.environ.items() if _matches(name, globs)}


def hidden_values(pass_env: Sequence[str]) -> Iterator[str]:
    """Yield the values that are hidden in what an agent says: it may find out any variable.

    They are those of keys, proxies, and passwords in URLs. A short value is hardly a key, unless
    the agent gets it as one.
    """
    for name, value in os.environ.items():
        if not _matches(name, pass_env) and len(value) < _SHORTEST_KEY:
            continue
        if is_secret(name) or _KEY.search(name) or name.upper() in _PROXIES[:3]:
            yield value
        yield from passwords_in(value)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
