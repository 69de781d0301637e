"""Conversations as text: chat templates, what of the text is trained on, loss masks."""
