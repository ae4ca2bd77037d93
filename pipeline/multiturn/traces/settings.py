"""The settings of request bodies that are no part of a prompt, as vendors name them.

From the types of openai 3.52.0, anthropic 2.11.0 and google-genai 3.4.0, on 22 November 2026.
"""

SETTINGS = frozenset(
    {
        # OpenAI: Chat Completions, Responses
        *("audio", "background", "context_management", "frequency_penalty", "include"),
        *("logit_bias", "logprobs", "max_tool_calls", "metadata", "modalities", "model"),
        *("moderation", "n", "parallel_tool_calls", "prediction", "presence_penalty"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning"),
        *("reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier"),
        *("stop", "store", "stream", "stream_options", "text", "top_logprobs", "top_p"),
        *("truncation", "user", "verbosity", "web_search_options"),
        # Anthropic; the last line by its older versions
        *("container", "inference_geo", "output_config", "speed", "stop_sequences", "thinking"),
        *("anthropic_version", "anthropic_beta", "betas", "mcp_servers", "top_k"),
        # Gemini
        *("candidateCount", "frequencyPenalty", "imageConfig", "labels", "mediaResolution"),
        *("presencePenalty", "responseJsonSchema", "responseLogprobs", "responseMimeType"),
        *("responseModalities", "responseSchema", "routingConfig", "safetySettings"),
        *("serviceTier", "speechConfig", "stopSequences", "thinkingConfig", "topK", "topP"),
    }
)
