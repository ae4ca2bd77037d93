"""The stages that ship with multiturn: one file a stage, named after it."""
