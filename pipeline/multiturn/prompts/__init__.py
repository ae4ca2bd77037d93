"""What is written of a converted case, and where its texts come from."""
