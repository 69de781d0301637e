"""Conversations as text: templates, trained spans, loss masks."""
