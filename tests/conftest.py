"""What all tests share."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import pytest
from hypothesis import HealthCheck, settings

from batch_server import BatchServer
from comparing import write
from loopback import Server
from repositories import FILES, commit, git

if TYPE_CHECKING:  # make test-tools has no browser
    from playwright.sync_api import Browser

    from browser import Reader

# Where SIGINT is ignored, as for `nohup make test &`, all processes that tests start ignore it,
# too, even those that should end by it. A signal that is handled is not passed on like this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda *_: None)

pytest_plugins = ["multiturn.testing", "pytester"]
# Doctest would import it, and only make fuzz brings atheris.
collect_ignore = ["fuzz.py"]

# A slow machine is no failing property, and the examples of one may share a root.
settings.register_profile(
    "unhurried",
    max_examples=50,  # half of what Hypothesis tries by itself; every run tries others
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unhurried")


# Collecting makes a million objects, all of which stay: to look for garbage among them takes as
# long as the rest of it, in each worker.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage again, but not in what was collected, and seldom: tests make little."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


@pytest.hookimpl(optionalhook=True)  # some environments have no pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """Return two more than there are cores, as some tests wait; each takes time to start."""
    return min((os.cpu_count() or 1) + 2, 8)


@pytest.fixture(autouse=True, scope="module")
def frozen() -> None:
    """Keep what is there already, such as imported SDKs, out of each collection of garbage.

    pytest starts some at the end of each run inside a test, and there are a million objects.
    """
    gc.freeze()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty root of attached files, which is the current folder."""
    folder = tmp_path / "root"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(autouse=True, scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Name a file of one authority: clients of SDKs would read all, and no test speaks TLS."""
    end = "-----END CERTIFICATE-----\n"
    file = tmp_path_factory.mktemp("authorities") / "one.pem"
    file.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        yield


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def batch_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with BatchServer() as server:
        yield server


@pytest.fixture(scope="session")
def first_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what each repository is a copy of: to make it takes six processes of git."""
    folder = tmp_path_factory.mktemp("first") / "repository"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        write(folder, FILES)
        git(folder, "init", "-q", "-b", "main", "--template=")  # without samples of hooks
        commit(folder)
    return folder


@pytest.fixture
def repository(first_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))  # kept in this process
    (tmp_path / "temporary").mkdir()
    shutil.copytree(first_repository, folder)
    return folder


@pytest.fixture(scope="module")  # not for all modules: its event loop would be in the way of theirs
def browser() -> "Iterator[Browser]":
    from browser import open_browser

    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def shared_reader(browser: "Browser") -> "Reader":
    from browser import Reader

    return Reader(browser)


@pytest.fixture
def reader(shared_reader: "Reader") -> "Iterator[Reader]":
    """Open reports, and fail at the end for whatever they must not do."""
    yield shared_reader
    errors, shared_reader.errors = shared_reader.errors, []
    assert errors == []
