"""OpenAI: Chat Completions and Responses, there, at Azure and at servers with the same APIs."""
