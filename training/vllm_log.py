"""Reads vLLM's log: how far a start has come, and why one failed."""

import re

_PREFIX = re.compile(r"^(\([^)]*pid=\d+\) ?)?([A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\] ?)?")
_CAUSE = re.compile(r"[\w.]*(Error|Exception): (?P<why>.*)|\s*Value error, (?P<value>.*)|.*?: error: (?P<flag>.*)")
"""How a line begins that names a cause: an exception, pydantic's word for one, or a refused flag."""
_CONSEQUENCES = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed|Worker failed with error|"
    r"\d+ validation errors? for|EngineCore encountered an issue|EngineDeadError|Executor failed"
)
"""What a process says because another one failed, and what is repeated in the next line."""
_TAIL = re.compile(r"\s*\[type=\w+, input_value=.*|\s*To allow overriding this maximum, .*")
_STAGES = (
    ("Resolved architecture", "reading the model's configuration"),
    ("Initializing a V1 LLM engine", "starting the engine"),
    ("Starting to load model", "loading the weights"),
    ("Loading weights took", "preparing to compute"),
    ("Dynamo bytecode transform", "compiling"),
    ("Capturing CUDA graph", "compiling"),
    ("KV cache size", "setting the cache up"),
    ("Starting vLLM", "opening the port"),
)
_REMEDIES = (
    ("VLLM_CPU_KVCACHE_SPACE", "lower serve.cpu_cache_gib"),
    ("Free memory on device", "free the GPU, or add -- --gpu-memory-utilization 0.8"),
    ("No available memory for the cache blocks", "add -- --gpu-memory-utilization 0.95, or more GPUs"),
    ("KV cache is needed", "lower serve.max_model_len"),
    ("out of memory", "lower serve.max_model_len or serve.max_num_seqs, or add GPUs"),
    ("max_model_len", "lower serve.max_model_len"),
    ("unrecognized arguments", "correct what follows --"),
    ("Address already in use", "choose another port"),
    ("Cannot find an appropriate cached snapshot", "give a directory, or let it be fetched from the hub"),
)
_LONGEST = 400
FIRST_STAGE = "starting Python"


def stage(text: str) -> str:
    """Return the last stage of a start that a log tells of."""
    found = [(text.rfind(mark), name) for mark, name in _STAGES]
    at, name = max(found)
    return name if at >= 0 else FIRST_STAGE


def last_words(text: str) -> str:
    """Return why a server ended, in one line: the last cause that a log names, and what to do where that is known."""
    lines = [_PREFIX.sub("", line).rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line.strip()]
    named = [line for line in lines if _CAUSE.match(line)]
    causes = [line for line in named if not _CONSEQUENCES.search(line)]
    if not causes:
        telling = (named or lines or ["nothing"])[-1].strip()[:_LONGEST]
        return f"it names no cause (the system may have ended it for want of memory), its last word is {telling!r}"
    said = _TAIL.sub("", causes[-1].strip())[:_LONGEST].rstrip(". ")
    remedy = next((remedy for mark, remedy in _REMEDIES if mark in said), None)
    return f"{said}: {remedy}" if remedy else said
