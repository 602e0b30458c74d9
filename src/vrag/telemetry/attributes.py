"""Names of attributes: those of OpenTelemetry's conventions for generative AI, and ours.

The conventions are still being developed and move between packages; they are written down here, and a test
compares them with the package that is installed.
"""

from __future__ import annotations


class GenAi:
    """Of the conventions for generative AI."""

    OPERATION = "gen_ai.operation.name"
    PROVIDER = "gen_ai.provider.name"
    CONVERSATION = "gen_ai.conversation.id"
    AGENT_NAME = "gen_ai.agent.name"
    AGENT_VERSION = "gen_ai.agent.version"
    MODEL = "gen_ai.request.model"
    TEMPERATURE = "gen_ai.request.temperature"
    TOP_P = "gen_ai.request.top_p"
    TOP_K = "gen_ai.request.top_k"
    SEED = "gen_ai.request.seed"
    MAX_TOKENS = "gen_ai.request.max_tokens"
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
    TOOL_NAME = "gen_ai.tool.name"
    TOOL_TYPE = "gen_ai.tool.type"
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
    TOOL_RESULT = "gen_ai.tool.call.result"
    INPUT_MESSAGES = "gen_ai.input.messages"
    OUTPUT_MESSAGES = "gen_ai.output.messages"


class Error:
    """Of the general conventions."""

    TYPE = "error.type"


class VragAttributes:
    """Ours."""

    RUN = "vrag.run.id"
    COLLECTION = "vrag.collection.version"
    PROFILE = "vrag.profile"
    STOP_REASON = "vrag.stop_reason"
    INTERRUPTED = "vrag.interrupted"
    STEP = "vrag.step"
    STEPS = "vrag.steps"
    EVIDENCE = "vrag.evidence.count"
    VISUAL_TOKENS = "vrag.usage.visual_tokens"
    COST = "vrag.usage.cost"
    RETRIES = "vrag.retries"
    RETRY_PAUSE = "vrag.retry.pause"
    REFUSED = "vrag.action.refused"
    REASON = "vrag.reason"
    HITS = "vrag.search.hits"
    SHOWN = "vrag.shown"
    DAMAGED = "vrag.damaged"
