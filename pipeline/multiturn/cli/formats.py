"""The output formats of ``convert``: names only, so that ``--help`` imports nothing else."""

OWN_FORMATS = ("json", "yaml", "text")  # written by rendering.py
TOOL_FORMATS = {  # and what each is for; written by the function to_NAME of engine/formats.py
    "openai": "OpenAI's fine-tuning",
    "evals": "its evals",
    "inspect": "inspect_ai",
    "promptfoo": "promptfoo",
}
