"""YAML 1.2 and JSON Lines as values that know their places; validation; YAML for reading."""
