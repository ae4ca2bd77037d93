"""What is sent of a case: where each text comes from, and what became of those written."""
