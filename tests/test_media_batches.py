"""Requests with images in batches: none is sent twice, and parts are counted with their bytes."""

import base64
import signal
from collections import Counter
from pathlib import Path

import pytest

from batch_server import BatchServer, text_for, write_targets
from media_files import image, padded, write_bytes
from multiturn import load_pipeline
from multiturn.engine.batches import BatchRun
from multiturn.engine.run import Run
from multiturn.providers.anthropic.provider import AnthropicBatchApi
from multiturn.providers.batch_api import BatchApi
from multiturn.providers.openai.provider import OpenAIBatchApi
from running import by_id, run, start, write_suite
from vendors import anthropic, openai

IMAGES = {f"{number}.png": image(seed=number) for number in range(3)}
PROMPTS = {"c0": ("one", "0.png"), "c1": ("two", "1.png"), "c2": ("six", "2.png")}
ASK = ("a.eval.yaml", "--batch", "--output", "out.jsonl", "--poll", "0.001")


@pytest.fixture
def server(batch_server: BatchServer) -> BatchServer:
    return batch_server


def write_images(folder: Path, images: dict[str, bytes]) -> None:
    """Write a suite with a case for each prompt, and the images that they ask about."""
    write_bytes(folder, images)
    contents = ([{"type": "image", "value": path}, text] for text, path in PROMPTS.values())
    write_suite(folder, contents)


@pytest.mark.parametrize("vendor", ["openai", "azure", "responses", "anthropic", "gemini"])
def test_a_batch_that_was_killed_goes_on_with_the_images_that_were_sent(
    vendor: str, root: Path, server: BatchServer
) -> None:
    """Only the image that has changed meanwhile is sent again."""
    model_takes = {"images": True}
    write_targets(root, server, model_takes=model_takes)
    write_images(root, IMAGES)

    def watch(operation: str, acted: bool) -> bool:
        if (operation, acted) == ("create", True):
            process.kill()
            process.wait()
        return (operation, acted) == ("create", True)

    server.watch = watch
    process = start(*ASK, "--target", vendor, folder=root)
    said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, said
    server.watch = lambda *_: False
    write_bytes(root, {"1.png": image(seed=7)})
    done = run(*ASK, "--resume", "--target", vendor, folder=root)
    assert done.returncode == 0, done.stderr
    assert server.sent() == Counter(one=1, two=2, six=1)
    responses = {key: line["response"] for key, line in by_id(root / "out.jsonl").items()}
    assert responses == {key: text_for(prompt) for key, (prompt, _) in PROMPTS.items()}
    sent = "".join(str(batch.requests) for batch in server.batches.values())
    for data in (*IMAGES.values(), image(seed=7)):
        assert sent.count(base64.b64encode(data).decode()) == 1


@pytest.mark.parametrize("api", [OpenAIBatchApi, AnthropicBatchApi])
@pytest.mark.parametrize(
    ("most_bytes", "sizes"),
    [
        pytest.param(500_000, [3], id="all fit into one part"),
        pytest.param(300_000, [2, 1], id="two are 270 kB in base64"),
        pytest.param(100_000, [1, 1, 1], id="each is larger than a part"),
    ],
)
def test_a_part_is_counted_with_the_bytes_of_its_images(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    api: type[BatchApi],
    most_bytes: int,
    sizes: list[int],
) -> None:
    monkeypatch.setattr(api, "most_bytes", most_bytes)
    write_images(root, {name: padded(data, 100_000) for name, data in IMAGES.items()})
    provider = (openai if api is OpenAIBatchApi else anthropic)(model_takes={"images": True})
    pipeline = load_pipeline("spec")
    run = Run("a.eval.yaml", pipeline, provider, results="out.jsonl", batch=True, is_dry=True)
    dry = BatchRun(run, poll=60, say=print)
    assert [delivery.result.error for delivery in dry.submit(run.cases())] == []
    assert [part.requests for part in dry.parts] == sizes
    assert sum(part.size for part in dry.parts) > 3 * 133_000
