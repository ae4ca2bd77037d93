"""Reports for reviewers: what the prompts are, and what a change of any file does to them."""
