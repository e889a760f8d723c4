"""A scripted server whose tokenizer is the worst there is: every byte is a token."""

from tests.fakes import ScriptedServer


class ByteServer(ScriptedServer):
    def ids_of(self, prompt: str) -> list[int]:
        return list(prompt.encode())
