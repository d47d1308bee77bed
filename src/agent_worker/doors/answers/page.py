"""The page behind an answer link: plain HTML and forms. All that it needs a script for is to read the link's secret.

The secret stands after the `#` of the address; the script puts it into a form and takes it out of the address. From
then on it travels in the bodies of forms, to another path: so a second link in the same tab is a new page. Everything
that an agent wrote is text here, never markup.
"""

from __future__ import annotations

from html import escape

from agent_worker.service.inbox import Item

SCRIPT = """"use strict";
const form = document.querySelector("form#open");
const secret = location.hash.slice(1);
if (secret) {
  history.replaceState(null, "", location.pathname);
  form.elements.secret.value = secret;
  form.submit();
} else {
  document.querySelector("#told").textContent = "This link is not whole: open it as it was sent to you.";
}
"""
STYLE = """
:root { color-scheme: light dark; }
body { font: 1.05rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.2rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .75rem; border: 1px solid #8886; border-radius: .5rem; }
form { margin: .5rem 0; }
button { font: inherit; width: 100%; min-height: 3rem; border: 1px solid #8888; border-radius: .5rem; cursor: pointer; }
textarea { font: inherit; width: 100%; box-sizing: border-box; min-height: 5rem; border-radius: .5rem; }
"""
_LABELS = {
    "approve": "Approve, this once",
    "deny": "Deny",
    "retry": "Retry",
    "dismiss": "Dismiss",
    "answer": "Answer",
}


def opening() -> str:
    """What the link itself shows, before anything is known of it."""
    form = '<form id="open" method="post" action="/answer/item"><input type="hidden" name="secret"></form>'
    told = '<p id="told">One moment …</p><noscript><p>This page needs JavaScript to read its link.</p></noscript>'
    return _page("You are asked for an answer", f'{told}{form}<script src="/answer/answer.js"></script>')


def question(item: Item, secret: str) -> str:
    """What is asked, and a button for each answer."""
    where = f"{item.agent or 'agent-worker'}{'@' + item.workspace if item.workspace else ''}"
    parts = [f"<p>{escape(item.kind)}: {escape(where)}</p>", _text(item.question or item.text)]
    if item.reason:
        parts.append(f"<p>It said:</p>{_text(item.reason)}")
    if item.tool:
        given = "\n".join(f"{name}: {value}" for name, value in item.arguments.items())
        parts.append(f"<pre>{escape(item.tool)}\n{escape(given)}</pre>")
    parts += [_button(secret, "answer", option, text=option) for option in item.options]
    for action in item.answers:
        if action == "answer" and item.kind != "vote":
            parts.append(_free(secret, "Another answer" if item.options else "Answer"))
        elif action != "answer":
            label = "Give no answer" if item.kind == "question" else _LABELS[action]
            parts.append(_button(secret, action, label))
    return _page("You are asked for an answer", "".join(parts))


def sentence(title: str, *told: str) -> str:
    return _page(title, "".join(_text(each) for each in told if each))


def _button(secret: str, action: str, label: str, *, text: str = "") -> str:
    return _form(f"{_hidden(secret, action, text)}<button>{escape(label)}</button>")


def _free(secret: str, label: str) -> str:
    box = f'<textarea name="text" aria-label="{escape(label)}" required></textarea>'
    return _form(f"{_hidden(secret, 'answer', '')}{box}<button>{escape(label)}</button>")


def _form(content: str) -> str:
    return f'<form method="post" action="/answer/item">{content}</form>'


def _hidden(secret: str, action: str, text: str) -> str:
    values = {"secret": secret, "action": action} | ({"text": text} if text else {})
    return "".join(f'<input type="hidden" name="{name}" value="{escape(value)}">' for name, value in values.items())


def _text(text: str) -> str:
    return f'<p class="text">{escape(text)}</p>'


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="/answer/answer.css"></head>'
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>"
    )
