"""The fake model speaks chat completions: the one line of set-up that OpenAI's library needs for that."""

from agents import set_default_openai_api

set_default_openai_api("chat_completions")
