"""The `generate` tool: the model's own knowledge."""

from pydantic import BaseModel, Field

from graph.errors import ModelError, ToolError
from graph.fit import fit
from graph.models.client import RoleModel
from graph.rendering import generate_messages
from graph.tools.card import AgentTool, ToolCard, ToolExample
from graph.tools.scope import current_scope


class GenerateArgs(BaseModel):
    """Arguments of `generate`."""

    query: str = Field(description="a question that makes sense on its own", min_length=1)


class GenerateTool(AgentTool):
    """Answers from the model's own knowledge, without looking anything up."""

    name: str = "generate"
    description: str = "Explains or rephrases something from general knowledge."
    args_schema: type[BaseModel] = GenerateArgs
    card: ToolCard = ToolCard(
        limits="Cannot look up facts, compute, count, or work on the letters of a word.",
        best_practice="Put everything it needs to know into the query.",
        examples=(
            ToolExample(sub_goal="Explain what a leap year is", arguments={"query": "What is a leap year?"}),
            ToolExample(
                sub_goal="Name the language family of Finnish",
                arguments={"query": "To which language family does Finnish belong?"},
            ),
        ),
        timeout=120,
        cacheable=False,
    )
    model: RoleModel

    async def _arun(self, query: str) -> str:
        """Ask the model.

        Raises:
            ToolError: the model server failed, or its context is too small; the run goes on with the other tools.
        """
        scope = current_scope.get()
        try:
            fitted = await fit(self.model, lambda most: generate_messages(query, most), scope.deadline)
            call = await self.model.complete(
                fitted.messages, schema=None, deadline=scope.deadline, turn=scope.turn, on_token=scope.on_token
            )
        except ModelError as error:
            raise ToolError(str(error)) from error
        scope.calls.append(call.model_copy(update={"memory_chars": fitted.memory_chars}))
        return call.text.strip() or "(no answer)"
