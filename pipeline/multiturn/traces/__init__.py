"""From a trace to a case: request bodies and recorded answers, written as a suite."""
