"""Logs of vLLM 0.31 on CPU whose starts failed, each provoked for real, shortened to the lines that matter."""

from pathlib import Path

import pytest

from training.vllm_log import FIRST_STAGE, last_words, stage

LOGS = Path(__file__).parent / "vllm_logs"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unknown_flag", "main.py: error: unrecognized arguments: --no-such-flag 3: correct what follows --"),
        ("bad_value", "main.py serve: error: argument --max-num-seqs: invalid int value: 'many'"),
        (
            "tensor_parallel",
            "Value error, Total number of attention heads (4) must be divisible by tensor parallel size (3)",
        ),
        (
            "cpu_memory",
            "ValueError: Available memory on node 0 (14.48/18.46 GiB) on kv cache allocation is less than requested "
            "memory for kv (400.0 GiB). Decrease --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory "
            "used by other processes: lower serve.cpu_cache_gib",
        ),
        (
            "context_too_long",
            "Value error, User-specified max_model_len (100000) is greater than the derived max_model_len "
            "(max_position_embeddings=8192.0 or model_max_length=None in model's config.json): lower "
            "serve.max_model_len",
        ),
        (
            "unknown_architecture",
            "Value error, The checkpoint you are trying to load has model type `nothing` but Transformers does not "
            "recognize this architecture. This could be because of an issue with the checkpoint, or because your "
            "version of Transformers is out of date",
        ),
        ("no_weights", "RuntimeError: Cannot find any model weights with `/models/noweights`"),
        (
            "damaged_weights",
            "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, "
            "file not fully covered",
        ),
        ("port_taken", "OSError: [Errno 98] Address already in use: choose another port"),
        (
            "not_on_this_machine",
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the "
            "specified revision on the local disk and outgoing traffic has been disabled. To enable repo look-ups and "
            "downloads online, pass 'local_files_only=False' as input: give a directory, or let it be fetched from the "
            "hub",
        ),
    ],
)
def test_the_line_that_names_the_cause_is_found(name: str, said: str):
    assert last_words((LOGS / f"{name}.log").read_text()) == said


@pytest.mark.parametrize(
    ("line", "remedy"),
    [  # as vLLM 0.31's source words them; not provoked, for want of a GPU
        (
            "ValueError: Free memory on device cuda:0 (3.2/79.1 GiB) on startup is less than desired GPU memory "
            "utilization (0.92, 72.8 GiB).",
            "--gpu-memory-utilization 0.8",
        ),
        (
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
            "--gpu-memory-utilization 0.95",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "serve.max_num_seqs"),
    ],
)
def test_too_little_memory_on_a_gpu_says_what_to_do(line: str, remedy: str):
    core = f"(EngineCore_0 pid=7) ERROR 12-01 02:19:29 [core.py:1433] {line}"
    epilogue = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    said = last_words(f"{core}\n(APIServer pid=1) {epilogue}\n")
    assert said.startswith(line.split(":")[0])
    assert remedy in said


def test_a_log_without_a_cause_shows_its_end():
    said = last_words("(Worker pid=3) INFO 12-01 02:19:29 [x.py:1] Loading weights\n")
    assert "names no cause" in said
    assert said.endswith("its last word is 'Loading weights'")
    assert last_words("").endswith("its last word is 'nothing'")


def test_an_engine_that_was_killed_is_no_cause_but_more_than_the_shutdown_that_follows():
    log = (
        "(APIServer pid=18712) ERROR 12-01 02:57:39 [async_llm.py:871] vllm.v1.engine.exceptions.EngineDeadError: "
        "EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
        "INFO:     Finished server process [18712]\n"
    )
    said = last_words(log)
    assert "names no cause" in said
    assert "EngineDeadError: EngineCore encountered an issue" in said


def test_stages_follow_a_start():
    lines = (LOGS / "started.log").read_text().splitlines(keepends=True)
    seen = [stage("".join(lines[:count])) for count in range(len(lines) + 1)]
    assert list(dict.fromkeys(seen)) == [
        FIRST_STAGE,
        "reading the model's configuration",
        "starting the engine",
        "loading the weights",
        "preparing to compute",
        "setting the cache up",
        "opening the port",
    ]
