"""From files of eval cases to cases: finding, reading, validating, guideline patterns."""
