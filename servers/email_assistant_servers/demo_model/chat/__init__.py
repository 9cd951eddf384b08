"""The chat agent as the demo model plays it: which tools a request needs, then its tool calls, then a text.

Only the person's words decide what is called: what tools answer is read for ids and times alone.
"""
