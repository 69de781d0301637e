"""A conversation about one data set: its mapping is changed turn by turn, by edits that are data.

`conversation` is what is kept, `edits` what can be changed, `commands` how a person says it in
short, `model` how a model says it, `talking` one turn, `chats` where conversations lie.
"""
