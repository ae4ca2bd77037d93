"""Grade a results file: write the key score into its lines, and say how many answers are right.

python grade.py results.jsonl fields

The graders are exact, pattern, fields (the default) and judge, which asks the target judge.
"""

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multiturn import Case, MultiturnError, TestMessage, load_target, run

QUESTION = "Does this answer say the same as the expected one? Say only yes or no."


def exact(answer: str, expected: str) -> float:
    """Return 1 for the expected answer, to the letter."""
    return float(answer.strip() == expected)


def pattern(answer: str, expected: str) -> float:
    """Return 1 if a regular expression, which is the expected answer, is found."""
    return float(re.search(expected, answer) is not None)


def fields(answer: str, expected: str) -> float:
    """Return the share of the expected JSON fields that the answer has."""
    try:
        said = json.loads(answer)
    except ValueError:
        return 0.0
    wanted: dict[str, Any] = json.loads(expected)
    right = [isinstance(said, dict) and said.get(key) == wanted[key] for key in wanted]
    return right.count(True) / len(right)


GRADERS = {"exact": exact, "pattern": pattern, "fields": fields}


async def judged(pairs: Mapping[int, tuple[str, str]]) -> dict[int, float]:
    """Return the verdicts of the target ``judge`` on answers and what was expected."""
    cases = []
    for number, (answer, expected) in pairs.items():
        text = f"{QUESTION}\n\nExpected: {expected}\n\nAnswer: {answer}"
        message = TestMessage(role="user", content=text)
        cases.append(Case(id=str(number), input_messages=(message,)))
    async with load_target("judge") as judge:
        verdicts = [result async for result in run(cases, "spec", judge)]
    return {
        int(verdict.id): float((verdict.response or "").lower().startswith("yes"))
        for verdict in verdicts
        if verdict.error is None
    }


def main(path: str, way: str = "fields") -> None:
    """Grade each answer that the suite says something of."""
    try:
        with open(path, encoding="utf-8") as lines:
            results = [json.loads(line) for line in lines]
        pairs = {
            number: (result["response"], result["expected_messages"][-1]["content"])
            for number, result in enumerate(results)
            if result["answer"] == "text" and result.get("expected_messages")
        }
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; name a file that multiturn run has written")
    except (KeyError, TypeError, ValueError):
        sys.exit(f"{path}: these are no results; name a file that multiturn run has written")
    try:
        if way == "judge":
            scores = asyncio.run(judged(pairs))
        else:
            scores = {number: GRADERS[way](*pair) for number, pair in pairs.items()}
    except MultiturnError as error:
        sys.exit(str(error))
    except (ValueError, re.error) as error:
        sys.exit(f"{path}: an expected answer is not what {way} reads: {error}")
    for number, score in scores.items():
        results[number]["score"] = score
    text = "".join(json.dumps(result, ensure_ascii=False) + "\n" for result in results)
    Path(path).write_text(text, encoding="utf-8")
    right = sum(score == 1 for score in scores.values())
    print(f"{path}: {right} of {len(results)} answers are right, by {way}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not {*sys.argv[2:]} <= {*GRADERS, "judge"}:
        sys.exit(f"usage: python grade.py RESULTS [{'|'.join([*GRADERS, 'judge'])}]")
    main(*sys.argv[1:])
