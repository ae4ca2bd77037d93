"""Guideline patterns: a false match would put a user's file into the system message."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wcmatch import glob

from limits import limited
from multiturn.errors import MultiturnError
from multiturn.suites.guideline_patterns import guideline_matcher


def matches(pattern: str, path: str) -> bool:
    return guideline_matcher((pattern,))(path)


# Common globs are compared with wcmatch, below: here is what it does not have, or has otherwise
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        pytest.param("*", ".hidden", id="a star stands for a dot in front"),
        pytest.param("?", "😀", id="a character beyond 16 bits is one character"),
        pytest.param("[^a].md", "b.md", id="none of a set, with a caret"),
        pytest.param("[a^].md", "^.md", id="a caret behind is of the set"),
        pytest.param("[[^]", "^", id="a caret inside a set is itself"),
        pytest.param("[]].md", "].md", id="a bracket in a set"),
        pytest.param("**/*.md", ".github/instructions/x.md", id="dot folders match"),
        pytest.param("**/a/**/b.md", "a/x/a/y/b.md", id="two stars give back what they took"),
        pytest.param("a/**/b.md", "a/x/b.md/b.md", id="two stars go past the first fit"),
        pytest.param("{docs/a,b}/*.md", "docs/a/x.md", id="a slash in braces"),
        pytest.param("{**/a,b}.md", "x/y/a.md", id="two stars in braces"),
        pytest.param("x{,.instructions}.md", "x.md", id="an empty alternative"),
        pytest.param("{x}", "{x}", id="one alternative is no alternative"),
        pytest.param("{x", "{x", id="a brace that does not close is a character"),
        pytest.param("a!", "a!", id="an exclamation mark behind the start is a character"),
        pytest.param("a?b", "a\nb", id="a newline is a character"),
        pytest.param("*.md", "a\\b.md", id="a star stands for a backslash, too"),
        pytest.param("docs/*.md", "./docs/x.md", id="a path's leading ./ does not count"),
        pytest.param("../common/*.md", "../common/x.md", id="a written .. matches a written .."),
    ],
)
def test_matches(pattern: str, path: str) -> None:
    assert matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        pytest.param("**/*.instructions.md", "x.instructions.md/evil.js", id="a matching folder"),
        pytest.param("**/*.md", "x.md.js", id="a matching start of the name"),
        pytest.param("?", "", id="a question mark is not nothing"),
        pytest.param("a[!x]b", "a/b", id="none of a set is no slash"),
        pytest.param("[^a].md", "a.md", id="a caret refuses a set, too"),
        pytest.param("[[^]", "!", id="a caret inside a set is no exclamation mark"),
        pytest.param("docs/**", "docs", id="the folder is not below itself"),
        pytest.param("*/**", "x.md", id="a file is not below itself"),
        pytest.param("docs/**", "x/docs/y.md", id="the start is anchored"),
        pytest.param("*.{md,txt}", "a.md,txt", id="braces are not their own text"),
        pytest.param("*.md", "a.MD", id="case counts"),
        pytest.param("docs/*/x.md", "docs/../x.md", id="a star inside is no .."),
        pytest.param("docs/**", "docs/../secret.md", id="what leaves the folder is not below it"),
        pytest.param("../**/*.md", "../../x.md", id="two stars behind .. are no .."),
        pytest.param("github/x.md", ".github/x.md", id="a folder's dot is not a leading ./"),
        pytest.param("*.md", "a.md\n", id="a newline at the end counts"),
        pytest.param("docs/*.md", "docs\\x.md", id="a backslash is no folder"),
        pytest.param("*.md", "x.md\\evil", id="a backslash ends no name"),
        pytest.param("!a", "b", id="a refusal alone matches nothing"),
    ],
)
def test_does_not_match(pattern: str, path: str) -> None:
    assert not matches(pattern, path)


@pytest.mark.parametrize(
    ("patterns", "paths", "meant"),
    [
        pytest.param(("docs/*.md",), ["a.md", "docs/a.md"], True, id="the resolved path matches"),
        pytest.param(("a.md",), ["./a.md", "docs/a.md"], True, id="the written path matches"),
        pytest.param(("*.md", "!a.md"), ["a.md"], False, id="a refusal counts"),
        pytest.param(("!a.md", "*.md"), ["a.md"], False, id="a refusal in front counts"),
        pytest.param(("*.md", "!docs/**"), ["a.md", "docs/a.md"], False, id="of the resolved path"),
        pytest.param(
            ("docs/**", "!a.md"), ["./a.md", "docs/a.md"], False, id="of the written path"
        ),
        pytest.param(("*", "!!a"), ["!a"], False, id="the second exclamation mark is the file's"),
        pytest.param(("**/*.md",), ["../x.md", "x.md"], True, id="the resolved path has no .."),
    ],
)
def test_patterns_and_paths(patterns: tuple[str, ...], paths: list[str], meant: bool) -> None:
    assert guideline_matcher(patterns)(*paths) is meant


@pytest.mark.parametrize(
    "patterns",
    [
        pytest.param(("{a,b}" * 30,), id="a billion alternatives"),
        pytest.param(("{a," * 50_000 + "}" * 50_000,), id="braces 50,000 deep"),
        pytest.param(("{" * 100_000,), id="100,000 braces that do not close"),
        pytest.param(("a",) * 9_091, id="many patterns"),
        pytest.param(("{a,b}" * 9,) * 1_000, id="alternatives of many patterns"),
        pytest.param(("{a,b}" * 9 + "{" * 900,), id="braces that stay open"),
        pytest.param(("{,}" * 333 + "a",), id="empty alternatives"),
    ],
)
def test_a_bomb_is_an_error_at_once(patterns: tuple[str, ...]) -> None:
    with limited(seconds=2), pytest.raises(MultiturnError, match=r"too many patterns|characters"):
        guideline_matcher(patterns)
    guideline_matcher(("a",) * 9_090)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        pytest.param("*a" * 50 + "b", "a" * 5_000, id="many stars in a name"),
        pytest.param("**/" * 50 + "b", "/".join("a" * 1_000), id="two stars, many times"),
        pytest.param("**/*a*/" * 40 + "b", "/".join(["aaa"] * 300), id="two stars and stars"),
        pytest.param("**/*a*a*a*b/" * 20 + "b", "/".join(["a" * 200] * 20), id="long names"),
    ],
)
def test_a_pattern_that_backtracks_is_done_at_once(pattern: str, path: str) -> None:
    with limited(seconds=1):
        assert not matches(pattern, path)


def test_many_patterns_are_matched_against_deep_paths_at_once() -> None:
    is_guideline = guideline_matcher(tuple(f"**/a/**/a/**/x{number}" for number in range(3_000)))
    with limited(seconds=2):
        assert not any(is_guideline("a/" * 500 + str(number)) for number in range(5))


# Properties

LITERALS = st.sampled_from(["a", "b", "ab", ".a", "a.b", "-", "!b", "é", "a+", "B"])
SETS = st.builds(
    "[{}{}]".format,
    st.sampled_from(["", "!", "^"]),
    st.sampled_from(["a", "ab", "a-b", "]", "]a", "a-", "-a", ".-a", "*", "?", "a!", "B-b"]),
)
PIECES = LITERALS | SETS | st.sampled_from(["*", "?"])
NAMES = st.lists(
    PIECES
    | st.lists(PIECES, min_size=2, max_size=3).map(lambda names: f"{{{','.join(names)}}}")
    | st.builds("a{{{},{{b,{}}}}}".format, PIECES, PIECES)
    | st.builds("b{{,{}}}".format, PIECES)
    | st.builds("{{{}}}".format, LITERALS),
    min_size=1,
    max_size=3,
).map("".join)
PATHS_OF_NAMES = st.lists(NAMES | st.just("**"), min_size=1, max_size=4).map("/".join)
PATTERNS = st.builds(
    "{}{}".format,
    st.sampled_from(["", "", "", "!"]),
    PATHS_OF_NAMES | st.builds("{{{},{}}}/{}".format, PATHS_OF_NAMES, NAMES, PATHS_OF_NAMES),
).filter(
    lambda pattern: (
        not re.search(r"\.\.|[^/{,!]\*\*|\*\*[^/},]|[@!?*+]\(", pattern)  # refused
        and pattern.count("{") < 4  # too many alternatives
        and not re.match("!?(?={).*[{,]!", pattern)  # wcmatch expands braces before it looks for !
    )
)
PATHS = st.lists(st.lists(LITERALS, min_size=1, max_size=3).map("".join), min_size=1, max_size=4)
FEWER = settings(max_examples=50)  # patterns take long to make
FLAGS = glob.GLOBSTAR | glob.DOTGLOB | glob.BRACE | glob.NEGATE | glob.CASE


def ended(pattern: str) -> str:
    """Let no pattern end in a name of stars only, of which wcmatch says another thing."""
    return f"{pattern}/a" if pattern.rpartition("/")[2].count("*") > 1 else pattern


def as_pattern(names: list[str]) -> str:
    """Write a path as the pattern that means it: only ! at the start is not a character."""
    return re.sub("^!", "[?!]", "/".join(names))


@FEWER
@given(st.lists(PATTERNS, min_size=1, max_size=3), PATHS.map("/".join))
@example(["**/*.instructions.md"], "x.instructions.md/evil.js")
@example(["**/a/**/b"], "a/x/a/y/b")
def test_agrees_with_wcmatch(patterns: list[str], path: str) -> None:
    patterns = [ended(pattern) for pattern in patterns]
    patterns.append(f"{patterns[0].lstrip('!')}/**")
    meant = glob.globmatch(path, patterns, flags=FLAGS)
    assert guideline_matcher(tuple(patterns))(path) is meant


@FEWER
@given(PATHS, PATTERNS)
def test_a_pattern_that_is_made_from_the_path_matches(names: list[str], other: str) -> None:
    """Most random paths match nothing; these do."""
    path, literal = "/".join(names), as_pattern(names)
    assert matches(literal, path)
    assert matches("/".join("*" for _ in names), path)
    assert matches(f"**/{as_pattern(names[-1:])}", path)
    assert matches(f"{{x,{literal}}}", path)
    assert not matches(f"{literal}/**/x", path)
    assert not guideline_matcher((literal, other, f"!{literal}"))(path)
