"""The prompts of ingot as data: Markdown with front matter; nothing here runs."""
