"""A case, its conversation and the views of it, and the request that a provider gets."""
