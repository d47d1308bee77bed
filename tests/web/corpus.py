"""What people have tried to make a page do (X1–X4): each piece alone, and where text is made into HTML."""

from __future__ import annotations

DOES = "window.pwned=1"
BEACON = "http://beacon.example/x"

PIECES = (
    f"<script>{DOES}</script>",
    f"<ScRiPt src={BEACON}.js></sCrIpT>",
    f"<svg onload={DOES}>",
    f"<svg><script>{DOES}</script></svg>",
    f"<svg><animate onbegin={DOES} attributeName=x dur=1s>",
    f"<img src=x onerror={DOES}>",
    f'<img src="{BEACON}.png">',
    f'<img srcset="{BEACON}.png 2x">',
    f'<iframe srcdoc="<script>parent.{DOES}</script>"></iframe>',
    f'<iframe src="javascript:parent.{DOES}"></iframe>',
    f"<body onload={DOES}>",
    f"<details open ontoggle={DOES}>x</details>",
    f"<input autofocus onfocus={DOES}>",
    f'<video><source onerror="{DOES}"></video>',
    f'<video poster="{BEACON}.png"></video>',
    f'<audio src="{BEACON}.mp3" autoplay></audio>',
    f'<object data="{BEACON}"></object>',
    f'<embed src="{BEACON}">',
    f'<link rel=stylesheet href="{BEACON}.css">',
    f'<link rel=prefetch href="{BEACON}">',
    f'<link rel=dns-prefetch href="{BEACON}">',
    f"<style>@import url({BEACON}.css);body{{background:url({BEACON}.png)}}</style>",
    f'<div style="background:url({BEACON}.png)">x</div>',
    f'<meta http-equiv=refresh content="0;url={BEACON}">',
    f'<base href="{BEACON}/">',
    f'<form action="{BEACON}"><button>go</button></form>',
    '<form data-do="POST /shutdown"><button>go</button></form>',
    '<section class="panel" data-src="/shutdown" data-on="*"></section>',
    '<details data-load="/page/home" open></details>',
    f"<math><mtext></mtext><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror={DOES}&gt;'>",
    f"<noscript><p title='</noscript><img src=x onerror={DOES}>'>",
    f"<svg></p><style><a id='</style><img src=1 onerror={DOES}>'>",
    f"<math><annotation-xml encoding='text/html'><img src=x onerror={DOES}></annotation-xml></math>",
    f"<template><img src=x onerror={DOES}></template>",
    f"<xmp><img src=x onerror={DOES}></xmp>",
    f"<!--><img src=x onerror={DOES}>-->",
    f"<a href='javascript:{DOES}'>x</a>",
    f'"><img src=x onerror={DOES}>',
    f"' onmouseover='{DOES}",
    f"</textarea></script></title><img src=x onerror={DOES}>",
    f"[x](javascript:{DOES})",
    f"[x](JaVaScRiPt:{DOES})",
    f"[x](javascript&colon;{DOES})",
    f"[x](&#106;avascript:{DOES})",
    f"[x](\\x01javascript:{DOES})",
    f"[x](java\tscript:{DOES})",
    f"[x](vbscript:{DOES})",
    f"[x](data:text/html,<script>{DOES}</script>)",
    "[x](data:text/html;base64,PHNjcmlwdD53aW5kb3cucHduZWQ9MTwvc2NyaXB0Pg==)",
    f"<javascript:{DOES}>",
    f"[x][r]\n\n[r]: javascript:{DOES}",
    f"![x]({BEACON}.png)",
    f"![x][r]\n\n[r]: {BEACON}.png",
    f'![x](x "onerror={DOES}")',
    f'[x](http://a.example "onmouseover={DOES}")',
    f"![`x`](javascript:{DOES})",
    "<a id=main name=side>x</a><form id=door name=location></form><img name=getElementById>",
    "<p id=main class=panel data-src=/page/home>x</p>",
    "[x](#code=stolen)",
    "[x](/shutdown)",
    "[x](//beacon.example/x)",
)


def corpus() -> list[str]:
    """Some two hundred and fifty."""
    wraps = ("{}", "> {}", "- {}\n  - {}", "| a |\n|---|\n| {} |")
    return [wrap.replace("{}", piece) for piece in PIECES for wrap in wraps] + [
        f"```{piece}\n{piece}\n```" for piece in PIECES if "\n" not in piece
    ]
