"""From suites to conversions, and from conversions to answers, many at a time."""
