"""Finished results for trainers: the config entry of each, and files where it needs another layout.

`job.export` is the way in; `trainers.TRAINERS` names the trainers. What a trainer can and cannot
express stands in its module and, for people, in docs/export.md.
"""
