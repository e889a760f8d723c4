"""`agentflow engine`: the embedded model's server."""

import time

import typer

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import seconds
from agentflow.options import AsJson

app = typer.Typer(no_args_is_help=True, help="The embedded model's server, which starts by itself when it is needed.")


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Show the engines that run."""
    from graph.engine import running_engines

    engines = running_engines()
    if as_json:
        import json
        from dataclasses import asdict

        for engine in engines:
            print(json.dumps({key: value for key, value in asdict(engine).items() if key != "api_key"}))
        return
    console = PlainConsole()
    for engine in engines:
        name = f"{engine.model} on {engine.base}" if engine.base else engine.model
        slots = "1 slot" if engine.slots == 1 else f"{engine.slots} slots"
        age, idle = seconds(time.time() - engine.started), seconds(engine.idle_seconds)
        console.print(
            f"{name} at {engine.base_url} (process {engine.pid}, {engine.threads} threads, {slots} of "
            f"{engine.context_per_slot:,} tokens, up for {age}, stops after {idle} without a request)",
            soft_wrap=True,
        )
    if not engines:
        console.print("No engine runs; the next question starts one.", soft_wrap=True)


@app.command("stop")
def stop() -> None:
    """Stop every engine; requests under way are broken off."""
    from graph.engine import stop_engine

    PlainConsole().print("Stopped." if stop_engine() else "No engine runs.")
