"""The rules of the vendors, by the ids that results and errors name."""

from collections.abc import Mapping
from typing import NamedTuple


class Rule(NamedTuple):
    """A rule of a vendor's API for requests. For which models it holds is in models.yaml."""

    id: str  # its name in results and errors
    vendor: str  # whose rule it is
    rule: str  # what the API requires
    source: str  # where it was seen


_TABLE = """\
A1 | Anthropic | system is a field; messages must be user or assistant | SDK
A2 | Anthropic | there must be a message that is not system | inspect_evals #624
A3 | Anthropic | text blocks must not be empty | anthropic-sdk-python #461
A4 | Anthropic | for some models, the last message must not be assistant | ai #12296
A5 | Anthropic | a final assistant message must not end in white space | litellm
A6 | Anthropic | neighbors of one role count as one message | inspect_ai #1420
A7 | Anthropic | for some models, temperature must not be set | rocketride-server #1195, inspect_ai #3722
A8 | Anthropic | caching is asked for by cache_control on a block | SDK
A9 | Anthropic | a temperature must not exceed 1 | API reference
A10 | Anthropic | some models take system after user, and last or before assistant | pydantic-ai #5706, #6765, bifrost #5931
A11 | Anthropic | since API version 2026-10-21, temperature, top_p and top_k must not be set | migration guide, SDK 2.11
A12 | Anthropic | the name of a tool must have 1 to 128 letters, digits, _ and - | home-assistant/core #147760, claude-code #96152
A13 | Anthropic | an assistant message must not have images or documents | Semoss #2323, migration guide
A14 | Anthropic | a message must not have audio | SDK
A15 | Anthropic | an image must not exceed 5 MB (5,242,880 bytes) in base64 | claude-code #10612, gptme #185
A16 | Anthropic | a request must not exceed 32 MB | guide to vision, as in claude-cli #323; soleur #3350
A17 | Anthropic | the result of a call that failed must be only text | vellum-assistant #18387
A18 | Anthropic | some models take no tool_choice that forces a call | claude-cookbooks #854, vercel/ai #21364
A19 | Anthropic | some models take thinking only after the very text that it followed | Anthropic's page on bound thinking blocks
A20 | Anthropic | an assistant message must not be only thinking, nor the last one think where thinking is off | forgecode #2107, #3071, #1195
A21 | Anthropic | max_output_tokens must not exceed what the model can write | claude-code #24451, litellm #15715
A22 | Anthropic | reasoning_tokens must be 1,024 or more, and less than max_output_tokens | SDK
A23 | Anthropic | some models take no reasoning_tokens | sim #5020, What's new in Fable 5.2
A24 | Anthropic | some models take only some values of reasoning_effort, or none | SDK, hive-mind #1876
A25 | Anthropic | some models take no temperature beside top_p, and only 1 while they think | lobehub #9523, modelparams.dev #305
A26 | Anthropic | some models take no top_p and top_k | Haiku 5.5 guide
A27 | Anthropic | some models take no JSON Schema of the answer | claude-mods
A28 | Anthropic | service_tier must be auto or standard_only | SDK
A29 | Anthropic | in the answer's JSON Schema, an object must have additionalProperties: false, and nothing must have a limit, such as minimum | req_llm #302, #706, vercel/ai #20681, laravel/ai #715
G1 | Gemini | system must go into system_instruction, or not at all | inspect_ai
G2 | Gemini | contents must not be empty | litellm #13769
G3 | Gemini | user and model must alternate | autogen #2900
G4 | Gemini | the first turn must be user; for some models, the last one, too | one-api #836, dify #3449, pipecat #5821
G5 | Gemini | text parts must not be empty | inspect_ai
G6 | Gemini | proxies and some fields want v1beta, not v1 | LiteLLM 1.106
G7 | Gemini | a temperature must not exceed 2 | API reference
G8 | Gemini | some models ignore temperature, top_p and top_k | opencode #38924
G9 | Gemini | a tool cannot be strict | SDK
G10 | Gemini | the name of a tool must begin with a letter or _, and have no more than 128 letters, digits, _ . : - | SDK, ccs #25
G11 | Gemini | a signature must be base64 | SDK
G12 | Gemini | an image must be PNG, JPEG or WebP | vscode #286628, gemini-ai #3
G13 | Gemini | some models take no address of a file | baml #1548, laravel/ai #927
G14 | Gemini | a request must not exceed 100 MB | guide to file input methods, as in bifrost #3367
G15 | Gemini | some models take neither a system message nor tools | cherry-studio #3242, adk-python #3900, #2857
G17 | Gemini | some models take no penalties | cookbook #1290, vercel/ai #8943
G18 | Gemini | some models take only some values of reasoning_effort, or reasoning_tokens in its place | guide to thinking
G19 | Gemini | service_tier must be standard, flex or priority | SDK
G20 | Gemini | max_output_tokens must not exceed what the model can write | guide to Gemini 4 Argon
O1 | OpenAI | tool must follow an assistant's tool call | OpenManus #744
O2 | OpenAI | some models want developer, not system | litellm #7961
O3 | OpenAI | a filtered prompt is HTTP 400, content_filter | Azure docs
O4 | OpenAI-compatible | some take max_tokens only | llama.cpp #13700
O5 | OpenAI-compatible | some take a system message only first (later_system: merge) | vllm #41114
O7 | OpenAI | a temperature must not exceed 2 | API reference
O8 | OpenAI | some models take no temperature but 1 | langchaingo #1355, litellm #13781
O9 | OpenAI | some models cache what prompt_cache_breakpoint marks | SDK 3.52, ax #573
O10 | OpenAI | some models have only the Responses API | genkit #6156, langchain #35594, SDK
O11 | OpenAI | some models take max_completion_tokens only | AgentLab #251, pokitoki #48
O12 | OpenAI | some models take no temperature | openai-python #2104, tee-gateway #154
O13 | OpenAI-compatible | in some chat templates, user and assistant must alternate | chat_templates, trl, rendered
O14 | OpenAI-compatible | some chat templates take no system message | chat_templates, rendered
O15 | OpenAI | a result cannot say that its call failed | SDK
O16 | OpenAI | the name of a tool must have 1 to 64 letters, digits, _ and - | SDK
O17 | OpenAI | instructions must be one text, which is not empty | SDK
O18 | OpenAI | in the Responses API, the limit of the output must be 16 or more | pi #6265, hindsight #58
O19 | OpenAI | in Chat Completions, images, documents and audio must be in user messages | openai-node #1030, OpenHands #7700
O20 | OpenAI | in Chat Completions, a document or audio must not be an address | SDK, pydantic-ai #4445
O21 | OpenAI | in the Responses API, images and documents must be in user messages or results | openhuman #3624, rust-genai #119
O22 | OpenAI | in the Responses API, a message must not have audio | SDK
O23 | OpenAI | in Chat Completions, some models need audio in a message | cherry-studio #1179, truefoundry/models #822
O24 | OpenAI | some models have no Responses API | page of gpt-audio
O25 | OpenAI | max_output_tokens must not exceed what the model can write | forgecode #1185, opencode-ai #140
O26 | OpenAI | some models take only some values of reasoning_effort, or none | openai-agents-python #2089, opencode #36141
O27 | OpenAI | some models take top_p, stop, penalties and others only with some values, or not at all | zenn, RouterBase, litellm #28662
O28 | OpenAI | some models take no system message | agent-framework #1077, litellm #5671
O29 | OpenAI | some models take no JSON, or no JSON Schema, as the form of the answer | openai-node #439, midscene #259
O30 | OpenAI | some names in the SDK are those of no model | SDK
O31 | OpenAI | stop must not have more than 4 texts | Qwen-Agent #228, continue #2461
O32 | OpenAI | the answer's JSON Schema must have a name of 1 to 64 letters, digits, _ and -; if strict, an object in it must require its properties, and no others | pydantic-ai #2271, agentscope-java #2548, outlines #844
T1 | OpenAI | in Chat Completions, the id of a call must not exceed 40 characters | vercel/ai #5171, pydantic-ai #4389
T2 | Anthropic | the id of a call must have only letters, digits, _ and - | bifrost #5097, nanobot #4356
T3 | all | each call must have its result in the next turn, before any text | rivet #487, ogx #6367
T4 | Gemini | the results of a turn must be one content, without other parts | eino-ext #571, crewAI #4693, gemini-cli #16135
T5 | Gemini | some models need the signature of a call in the current turn | bifrost #2226, semantic-kernel #13417
T6 | OpenAI, Gemini | in Chat Completions, and for some models and servers, a result must be only text | inspect_ai #1058, hermes-agent #96466, llama.cpp #23380
T7 | Anthropic | calls in messages may need tools | litellm #27620, #24712
T8 | all | thinking must go only to the vendor that signed it, with its signature | openai-agents-python #1704, continue #4470
T9 | OpenAI | a reasoning item must be there once, encrypted, before a text or a call | vercel/ai #7543, #7099, #7883, openai-agents-python #569, cockpit-tools #2090
T10 | OpenAI | in the Responses API, the id of a call must not exceed 64 characters | fastllm #45, Aether #829
T11 | OpenAI | some models want the phase of an assistant's text | SDK 3.52, opencode #15528
T12 | OpenAI | in Chat Completions, some models take no tools | litellm #34569, genkit #6303, bolna #1019
T13 | OpenAI | in the schema of a tool, an array must say its items; if strict, an object must require its properties, and no others | aichat #1049, trae-agent #173, camel #2231
T14 | Anthropic | the schema of a tool must not begin with oneOf, anyOf or allOf | claude-code #40075, opencode #37916
T15 | Anthropic | properties of a tool must have names of 1 to 64 letters, digits, _, . and - | claude-code #79418, n8n #30590
M1 | all | a system message must not have images, documents or audio | SDKs
M2 | all | some models take no images, documents or audio | models.yaml
M3 | Anthropic, Gemini | an image has no detail | SDKs
F1 | command lines | an argument must not exceed 128 KiB | Codex
F2 | command lines | a line that starts with @ mentions a file | AgentV
F3 | agents | a file needs a path, and what to do with it | AgentV #422, #1072
F4 | agents | settings of a request cannot be given | codex exec --help
F5 | agents | VS Code gets the question and files, unless configured otherwise | VS Code's chat
F6 | agents | tools cannot be given | codex exec --help
F7 | agents | images, documents and audio must be files | codex exec --help
R1 | GitHub | a step summary must not exceed 1,024 KiB | runner
C1 | all | a prompt must have a user or an assistant message | multiturn
C2 | all | a temperature must be finite and not negative | multiturn
C3 | all | a target that says omit must get no temperature | multiturn
C4 | all | a target gets only what it is said to take | multiturn
C5 | all | tool_choice must be of the tools that the case has | multiturn
C6 | all | a provider of your own must accept calls to get them | multiturn
C7 | all | a provider must accept media to get images, documents and audio | multiturn
C8 | all | images, documents and audio need a chat prompt, as a question is only text | multiturn
C9 | all | a prompt without a system message gets the default one | 000, "System Message Handling"
C10 | all | a target gets only settings that its API has | SDKs
C11 | all | body adds only what is neither prompt nor a setting nor how a request is sent | multiturn
"""  # noqa: E501 - a rule is a line


def rules_in(table: str) -> dict[str, Rule]:
    """Return the rules of a table, by their ids; each line has the attributes of one."""
    return {rule.id: rule for rule in (Rule(*row.split(" | ")) for row in table.splitlines())}


RULES = rules_in(_TABLE)


def broken(rule: str, advice: str, rules: Mapping[str, Rule] = RULES) -> str:
    """Return the error for a broken rule, one of those by their ids, and how to avoid it."""
    vendor = rules[rule].vendor
    whose = "" if vendor == "all" else f" ({vendor})"
    return f"{rule}: {rules[rule].rule}{whose}; {advice}"
