"""A refusal of a vendor's server teaches: the error says which setting avoids it, once a run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import commands
from loopback import Server
from multiturn import ProviderError
from multiturn.errors import ENDS_RUN
from running import run, write_suite, write_target
from vendors import PROVIDERS, chat, entries, openai


def errors(provider: Any, requests: list[Any]) -> list[ProviderError]:
    """Return the error of each request."""

    async def main() -> list[Any]:
        async with provider:
            return await asyncio.gather(*map(provider.invoke, requests), return_exceptions=True)

    return asyncio.run(main())


@pytest.mark.parametrize(("vendor", "entry"), entries("refusals.yaml"))
def test_the_error_says_what_avoids(vendor: str, entry: dict[str, Any], server: Server) -> None:
    server.answer(body=entry["body"], status=entry["status"], times=None)
    provider = PROVIDERS[vendor](server.url, **entry[vendor])
    request = chat(("user", "Hello"), **entry.get("request", {}))
    first, second = errors(provider, [request])[0], errors(provider, [request])[0]
    assert [error.kind in ENDS_RUN for error in (first, second)] == [entry["ends"]] * 2
    if entry["advice"] is None:
        assert first.what == second.what
    else:
        assert first.what.endswith(f"; {entry['advice']}")
    if entry["advice"] and "api_key" not in entry["advice"]:
        # Once is enough, unless the run ends: of several such errors at once, one is shown.
        assert (entry["advice"] in second.what) == entry["ends"]


def test_a_server_that_cannot_be_reached_ends_a_run_and_a_connection_that_breaks_does_not(
    server: Server,
) -> None:
    request = chat(("user", "Hello"))
    assert errors(openai(max_retries=0), [request])[0].kind == "unreachable"
    server.stall(times=None)
    assert errors(openai(server.url, max_retries=0), [request])[0].kind == "connection"


def run_of_40(folder: Path, server: Server, **settings: Any) -> commands.Done:
    write_target(folder, server, model_takes={"temperature": True}, **settings)
    write_suite(folder, ["Hello"] * 40)
    return run("a.eval.yaml", "--target", "az", "--concurrency", "1", folder=folder)


REFUSED = "Unsupported value: 'temperature' does not support 0 with this model."


def test_a_run_ends_at_once_if_every_case_would_be_refused(tmp_path: Path, server: Server) -> None:
    server.fail(400, REFUSED, times=None)
    done = run_of_40(tmp_path, server, temperature=0, default_system="omit")
    assert (done.returncode, len(server.requests)) == (1, 1)
    assert done.stderr == (
        f"a.eval.yaml:1: case 'c0': HTTP 400: {REFUSED[:-1]}; set temperature: omit in the target;"
        " no more cases are sent\n0 answered, 0 reused, 1 failed, 0 retried\n"
    )


def test_a_run_goes_on_where_other_cases_may_pass_and_says_the_advice_once(
    tmp_path: Path, server: Server
) -> None:
    server.fail(400, "Conversation roles must alternate", times=39)
    done = run_of_40(tmp_path, server)
    assert (done.returncode, len(server.requests)) == (1, 40)
    assert done.stderr.count("set roles: alternate in the target") == 1
    assert done.stderr.count("HTTP 400") == 39


def test_a_run_ends_at_once_if_nobody_listens(tmp_path: Path) -> None:
    with Server() as gone:
        pass
    done = run_of_40(tmp_path, gone, max_retries=0)
    assert done.returncode == 1
    assert done.stderr.count("the connection of the target 'az' failed") == 1
    assert "no more cases are sent" in done.stderr
