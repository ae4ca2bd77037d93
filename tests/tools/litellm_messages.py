"""What LiteLLM makes of messages in OpenAI's form; its own Python runs this.

Reads a list of messages in each line, and writes those for Anthropic and the contents for Gemini.
"""

import copy
import json
import sys


def main() -> None:
    from litellm.litellm_core_utils.prompt_templates.factory import anthropic_messages_pt
    from litellm.llms.vertex_ai.gemini.transformation import _gemini_convert_messages_with_history

    for line in sys.stdin:
        given = json.loads(line)
        anthropic = anthropic_messages_pt(copy.deepcopy(given), "claude-sonnet-4-5", "anthropic")
        gemini = _gemini_convert_messages_with_history(given, model="gemini-2.5-flash")
        print(json.dumps([anthropic, gemini]))


if __name__ == "__main__":
    main()
