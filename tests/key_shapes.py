"""Keys as well-known services write them, put together from parts: none is real, and no scanner stumbles over one."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator

LOWER, DIGITS, UPPER = string.ascii_lowercase, string.digits, string.ascii_uppercase
ANY = LOWER + UPPER + DIGITS
WEB = ANY + "-_"
HEX = DIGITS + "abcdef"
BASE64 = ANY + "+/"
BASE32 = UPPER + "234567"

#: Service → parts of its key: a text stands for itself, a pair is so many characters of an alphabet.
SHAPES: dict[str, tuple[str | tuple[int, str], ...]] = {
    "aws access key": ("AK" + "IA", (16, BASE32)),
    "aws temporary key": ("AS" + "IA", (16, BASE32)),
    "aws secret": ("aws_secret_access" + "_key = ", (40, BASE64)),
    "aws bedrock": ("ABSKQmVkcm9ja0FQSUtleS", (110, BASE64)),
    "github classic": ("gh" + "p_", (36, ANY)),
    "github oauth": ("gh" + "o_", (36, ANY)),
    "github app": ("gh" + "s_", (36, ANY)),
    "github user": ("gh" + "u_", (36, ANY)),
    "github refresh": ("gh" + "r_", (36, ANY)),
    "github fine-grained": ("github" + "_pat_", (22, ANY), "_", (59, ANY)),
    "gitlab personal": ("gl" + "pat-", (20, WEB)),
    "gitlab runner": ("gl" + "rt-", (20, WEB)),
    "gitlab trigger": ("gl" + "ptt-", (40, HEX)),
    "slack bot": ("xo" + "xb-", (12, DIGITS), "-", (13, DIGITS), "-", (24, ANY)),
    "slack user": ("xo" + "xp-", (12, DIGITS), "-", (12, DIGITS), "-", (13, DIGITS), "-", (32, HEX)),
    "slack app": ("xa" + "pp-1-", (11, UPPER + DIGITS), "-", (13, DIGITS), "-", (64, HEX)),
    "slack webhook": (
        "https://hooks.slack" + ".com/services/",
        *("T", (10, UPPER + DIGITS), "/B", (10, UPPER + DIGITS), "/", (24, ANY)),
    ),
    "discord webhook": ("https://discord" + ".com/api/webhooks/", (18, DIGITS), "/", (68, WEB)),
    "discord bot": ("M", (25, ANY), ".", (6, ANY), ".", (38, WEB)),
    "teams webhook": (
        "https://contoso.webhook.office" + ".com/webhookb2/",
        *((8, HEX), "-", (4, HEX), "-", (4, HEX), "-", (4, HEX), "-", (12, HEX), "@"),
        *((8, HEX), "-", (4, HEX), "-", (4, HEX), "-", (4, HEX), "-", (12, HEX), "/IncomingWebhook/"),
        *((32, HEX), "/", (8, HEX), "-", (4, HEX), "-", (4, HEX), "-", (4, HEX), "-", (12, HEX)),
    ),
    "stripe live": ("sk_" + "live_", (24, ANY)),
    "stripe restricted": ("rk_" + "live_", (24, ANY)),
    "stripe webhook": ("wh" + "sec_", (32, ANY)),
    "google api": ("AI" + "za", (35, WEB)),
    "google oauth secret": ("GOC" + "SPX-", (28, WEB)),
    "google oauth token": ("ya" + "29.", (80, WEB)),
    "openai legacy": ("s" + "k-", (20, ANY), "T3Blbk" + "FJ", (20, ANY)),
    "openai project": ("sk-" + "proj-", (74, WEB), "T3Blbk" + "FJ", (74, WEB)),
    "openai service account": ("sk-" + "svcacct-", (74, WEB), "T3Blbk" + "FJ", (74, WEB)),
    "anthropic": ("sk-" + "ant-api03-", (93, WEB), "AA"),
    "anthropic admin": ("sk-" + "ant-admin01-", (93, WEB), "AA"),
    "openrouter": ("sk-" + "or-v1-", (64, HEX)),
    "huggingface": ("h" + "f_", (34, LOWER + UPPER)),
    "groq": ("gs" + "k_", (52, ANY)),
    "xai": ("xa" + "i-", (80, ANY)),
    "perplexity": ("pp" + "lx-", (48, ANY)),
    "replicate": ("r" + "8_", (37, ANY)),
    "fireworks": ("f" + "w_", (24, ANY)),
    "langsmith": ("lsv2_" + "pt_", (32, HEX), "_", (10, HEX)),
    "nvidia": ("nv" + "api-", (64, WEB)),
    "tavily": ("tv" + "ly-", (32, ANY)),
    "npm": ("np" + "m_", (36, ANY)),
    "pypi": ("py" + "pi-AgEIcHlwaS5vcmc", (70, WEB)),
    "rubygems": ("ruby" + "gems_", (48, HEX)),
    "crates.io": ("c" + "io", (32, ANY)),
    "docker": ("dc" + "kr_pat_", (27, WEB)),
    "twilio": ("S" + "K", (32, HEX)),
    "sendgrid": ("S" + "G.", (22, WEB), ".", (43, WEB)),
    "mailgun": ("ke" + "y-", (32, HEX)),
    "mailchimp": ((32, HEX), "-us" + "12"),
    "postmark": (
        "X-Postmark-Server-Tok" + "en: ",
        (8, HEX),
        "-",
        (4, HEX),
        "-",
        (4, HEX),
        "-",
        (4, HEX),
        "-",
        (12, HEX),
    ),
    "telegram address": ("https://api.telegram.org/bot", (10, DIGITS), ":AA", (33, WEB), "/getMe"),
    "telegram": ((10, DIGITS), ":AA", (33, WEB)),
    "digitalocean": ("do" + "p_v1_", (64, HEX)),
    "linear": ("lin_" + "api_", (40, ANY)),
    "notion": ("ntn" + "_", (46, ANY)),
    "notion old": ("sec" + "ret_", (43, ANY)),
    "databricks": ("da" + "pi", (32, HEX)),
    "vault": ("hv" + "s.", (92, WEB)),
    "vault batch": ("hv" + "b.", (140, WEB)),
    "terraform": ((14, ANY), ".atlas" + "v1.", (62, WEB)),
    "shopify": ("shp" + "at_", (32, HEX)),
    "shopify shared": ("shp" + "ss_", (32, HEX)),
    "square": ("EA" + "AA", (60, WEB)),
    "square oauth": ("sq0" + "atp-", (22, WEB)),
    "heroku": ("HR" + "KU-AA", (58, WEB)),
    "grafana service": ("gl" + "sa_", (32, ANY), "_", (8, HEX)),
    "grafana cloud": ("gl" + "c_", (60, BASE64)),
    "sentry": ("sn" + "trys_", "eyJ", (120, BASE64), "_", (43, BASE64)),
    "sentry user": ("sn" + "tryu_", (64, HEX)),
    "new relic": ("NR" + "AK-", (27, UPPER + DIGITS)),
    "postman": ("PM" + "AK-", (24, HEX), "-", (34, HEX)),
    "doppler": ("dp." + "pt.", (43, ANY)),
    "fly": ("fo" + "1_", (43, WEB)),
    "fly machine": ("fm" + "2_", (120, BASE64)),
    "airtable": ("pa" + "t", (14, ANY), ".", (64, HEX)),
    "asana": ("2/", (16, DIGITS), "/", (16, DIGITS), ":", (32, HEX)),
    "atlassian": ("ATA" + "TT3xFfGF0", (170, WEB), "=", (8, UPPER + DIGITS)),
    "figma": ("fi" + "gd_", (40, WEB)),
    "planetscale": ("psc" + "ale_tkn_", (43, WEB)),
    "supabase": ("sb" + "p_", (40, HEX)),
    "supabase secret": ("sb_sec" + "ret_", (31, WEB)),
    "clerk": ("sk_" + "test_", (42, ANY)),
    "pulumi": ("pu" + "l-", (40, HEX)),
    "tailscale": ("tskey-" + "auth-", (12, ANY), "CNTRL-", (32, ANY)),
    "dynatrace": ("dt0" + "c01.", (24, BASE32), ".", (64, BASE32)),
    "1password": ("op" + "s_eyJ", (250, BASE64)),
    "age": ("AGE-SECRET-" + "KEY-1", (58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
    "azure storage": ("AccountKey" + "=", (86, BASE64), "=="),
    "azure client secret": ((3, ANY), "8" + "Q~", (34, WEB)),
    "alibaba": ("LT" + "AI", (20, ANY)),
    "tencent": ("AK" + "ID", (32, ANY)),
    "sonar": ("sq" + "p_", (40, HEX)),
    "buildkite": ("bk" + "ua_", (40, HEX)),
    "circleci": ("CCI" + "PAT_", (22, ANY), "_", (40, HEX)),
    "contentful": ("CFP" + "AT-", (43, WEB)),
    "netlify": ("nf" + "p_", (36, ANY)),
    "vercel": ("vc" + "p_", (56, ANY)),
    "cloudflare": ("v1.0-", (24, HEX), "-", (146, HEX)),
    "intercom": ("Authorization: Bear" + "er ", (60, ANY), "="),
    "jwt": ("ey" + "J", (34, WEB), ".ey" + "J", (60, WEB), ".", (43, WEB)),
    "password in an address": ("postgres://app:", (16, ANY), "@db.internal/app"),
}


def made(parts: tuple[str | tuple[int, str], ...], seed: int) -> str:
    dice = random.Random(seed)
    return "".join(part if isinstance(part, str) else "".join(dice.choices(part[1], k=part[0])) for part in parts)


def secret_in(parts: tuple[str | tuple[int, str], ...], key: str) -> str:
    """The longest part of it that chance made: that must not be left standing."""
    place, longest = 0, ""
    for part in parts:
        size = len(part) if isinstance(part, str) else part[0]
        if not isinstance(part, str) and size > len(longest):
            longest = key[place : place + size]
        place += size
    return longest


def keys(each: int = 3) -> Iterator[tuple[str, str, str]]:
    """Service, a key, and the part of it that is secret."""
    for number, (service, parts) in enumerate(SHAPES.items()):
        for turn in range(each):
            key = made(parts, number * 100 + turn)
            yield service, key, secret_in(parts, key)
