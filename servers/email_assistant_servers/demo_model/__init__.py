"""A deterministic stand-in for a language model, behind the OpenAI HTTP interface.

A file of answers, a few fixed rules and templates answer the requests of the mail agent and of the chat, so that
everything else can run and be tested without a model provider. It says so in each draft; no quality figure is ever
taken from it.
"""
