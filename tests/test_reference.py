"""The pages of the reference are as the code makes them."""

import pytest

from reference import FOLDER, PAGES

DRAWN = {name: page.text() for name, page in PAGES.items()}  # before tests install stages


@pytest.mark.parametrize("name", DRAWN)
def test_a_page_of_the_reference_is_as_the_code_makes_it(name: str) -> None:
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert page == DRAWN[name], "run python tests/reference.py"


def test_the_reference_has_no_other_page() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*DRAWN}
