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
    "agent-worker": ("aw" + "door_", (43, WEB)),
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
    "aws session": ("aws_session_" + "token=", (300, BASE64)),
    "aws session in json": ('"Session' + 'Token": "', (300, BASE64), '"'),
    "aws secret in json": ('"Secret' + 'AccessKey": "', (40, BASE64), '"'),
    "aws session raw": ("IQoJb3JpZ2" + "luX2Vj", (300, BASE64)),
    "aws bedrock, short": ("bedrock-api" + "-key-", (200, ANY)),
    "azure shared access": ("https://a.blob.core.windows.net/c?sv=2022&s" + "ig=", (43, ANY), "%3D"),
    "azure devops": ((76, ANY), "AZ" + "DO", (4, ANY)),
    "azure openai": ((52, ANY), "JQQJ" + "99", (10, ANY), "ACYeBjFXJ3w3AAABACOG", (4, ANY)),
    "sql server": ("Server=tcp:a.database.windows.net;User=sa;Pass" + "word=", (16, ANY), ";Encrypt=True"),
    "password in a query": ("jdbc:postgresql://h/db?user=u&pass" + "word=", (14, ANY)),
    "key in a query": ("https://a.example/v1?api_" + "key=", (32, HEX), "&q=1"),
    "token in an address": ("https://", (40, HEX), "@github" + ".com/a/b.git"),
    "slack browser": ("xo" + "xc-", (12, DIGITS), "-", (12, DIGITS), "-", (64, HEX)),
    "slack cookie": ("xo" + "xd-", (80, ANY)),
    "slack workflow": ("https://hooks.slack" + ".com/triggers/T", (8, BASE32), "/", (13, DIGITS), "/", (32, HEX)),
    "gitlab runner registration": ("GR" + "1348941", (20, WEB)),
    "gitlab oauth": ("gl" + "oas-", (64, HEX)),
    "feishu webhook": ("https://open.feishu.cn/open-apis/bot/v2/hook/", (36, HEX)),
    "zapier webhook": ("https://hooks.zapier" + ".com/hooks/catch/", (7, DIGITS), "/", (7, LOWER + DIGITS), "/"),
    "google refresh": ("1/" + "/0", (60, WEB)),
    "google gemini": ("AQ" + ".Ab8", (50, WEB)),
    "hubspot": ("pa" + "t-na1-", (8, HEX), "-", (4, HEX), "-", (4, HEX), "-", (4, HEX), "-", (12, HEX)),
    "brevo": ("xkey" + "sib-", (64, HEX), "-", (16, ANY)),
    "resend": ("r" + "e_", (8, ANY), "_", (24, ANY)),
    "mailersend": ("ml" + "sn.", (64, HEX)),
    "elevenlabs": ("s" + "k_", (48, HEX)),
    "pinecone": ("pc" + "sk_", (6, ANY), "_", (62, ANY)),
    "cerebras": ("cs" + "k-", (48, LOWER + DIGITS)),
    "together": ("tgp" + "_v1_", (43, WEB)),
    "jina": ("ji" + "na_", (32, HEX), (28, ANY)),
    "firecrawl": ("f" + "c-", (32, HEX)),
    "e2b": ("e2" + "b_", (40, HEX)),
    "daytona": ("dt" + "n_", (64, HEX)),
    "voyage": ("p" + "a-", (43, ANY)),
    "cursor": ("crs" + "r_", (64, HEX)),
    "wandb": ("wandb" + "_v1_", (77, ANY)),
    "posthog": ("ph" + "x_", (43, ANY)),
    "neon": ("na" + "pi_", (64, LOWER + DIGITS)),
    "render": ("rn" + "d_", (28, ANY)),
    "sourcegraph": ("sg" + "p_", (16, HEX), "_", (40, HEX)),
    "polar": ("polar" + "_oat_", (43, ANY)),
    "aiven": ("AV" + "NS_", (19, ANY)),
    "easypost": ("EZ" + "AK", (54, ANY)),
    "flutterwave": ("FLW" + "SECK_TEST-", (32, HEX), "-X"),
    "shippo": ("shippo" + "_live_", (40, HEX)),
    "prefect": ("pn" + "u_", (36, ANY)),
    "typeform": ("tf" + "p_", (44, ANY), "_", (14, ANY)),
    "readme": ("rd" + "me_", (70, LOWER + DIGITS)),
    "clojars": ("CLO" + "JARS_", (60, LOWER + DIGITS)),
    "duffel": ("duffel" + "_live_", (43, ANY)),
    "frame.io": ("fi" + "o-u-", (64, ANY)),
    "infracost": ("ic" + "o-", (32, ANY)),
    "adafruit": ("ai" + "o_", (28, ANY)),
    "openshift": ("sha" + "256~", (43, WEB)),
    "harness": ("pa" + "t.", (22, ANY), ".", (24, HEX), ".", (20, ANY)),
    "grafana old": ("eyJr" + "Ijoi", (76, ANY), "="),
    "octopus": ("AP" + "I-", (26, UPPER + DIGITS)),
    "mapbox": ("s" + "k.eyJ1Ijoi", (60, ANY), ".", (22, WEB)),
    "stytch": ("secret" + "-live-", (35, ANY), "="),
    "scalingo": ("tk" + "-us-", (48, ANY)),
    "plaid": ("access" + "-sandbox-", (8, HEX), "-", (4, HEX), "-", (4, HEX), "-", (4, HEX), "-", (12, HEX)),
    "nuget": ("oy" + "2", (43, LOWER + DIGITS)),
    "facebook": ("EA" + "ACEdEose0cBA", (120, ANY)),
    "twitter": ("A" * 21, (20, ANY), "%2B", (80, ANY)),
    "dropbox": ("s" + "l.", (140, WEB)),
    "discord user": ("mf" + "a.", (84, WEB)),
    "okta": ("Authorization: SS" + "WS ", (42, ANY)),
    "key header": ("X-API" + "-Key: ", (32, HEX)),
    "azure key header": ("api" + "-key: ", (32, HEX)),
    "gitlab header": ("PRIVATE" + "-TOKEN: ", (20, ANY)),
    "npm registry": ("//registry.example/:_auth" + "Token=", (36, HEX)),
    "wireguard": ("Private" + "Key = ", (43, BASE64), "="),
    "bitbucket": ("AT" + "BB", (32, ANY)),
    "stripe organisation": ("sk_" + "org_live_", (40, ANY)),
    "launchdarkly": ("sd" + "k-", (8, HEX), "-", (4, HEX), "-", (4, HEX), "-", (4, HEX), "-", (12, HEX)),
    "yandex cloud": ("AQ" + "VN", (36, WEB)),
    "yandex": ("y" + "0_", (55, WEB)),
    "artifactory": ("AK" + "Cp", (69, ANY)),
    "artifactory reference": ("cmVmd" + "GtuOj", (54, ANY)),
    "confluent": ("cf" + "lt", (60, ANY)),
    "linear webhook": ("lin_" + "wh_", (40, ANY)),
    "clickup": ("p" + "k_", (8, DIGITS), "_", (32, UPPER + DIGITS)),
    "wakatime": ("wa" + "ka_", (8, HEX), "-", (4, HEX), "-", (4, HEX), "-", (4, HEX), "-", (12, HEX)),
    "snyk": ("snyk" + "_uat.", (8, ANY), ".", (100, ANY), ".", (60, ANY)),
    "infisical": ("s" + "t.", (24, HEX), ".", (32, HEX), ".", (32, HEX)),
    "zuplo": ("zp" + "ka_", (32, ANY), "_", (8, ANY)),
    "cloudflare user": ("cf" + "ut_", (48, ANY)),
    "braintree": ("access_" + "token$production$", (16, LOWER + DIGITS), "$", (32, HEX)),
    "convex": ("prod:happy-otter-123|", (60, ANY)),
    "encrypted web token": ("ey" + "J", (34, WEB), "..", (16, WEB), ".", (60, WEB), ".", (22, WEB)),
    "cut-off encrypted key": (
        "-----BEGIN RSA PRIVATE" + " KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F0F\n\n",
        *((64, BASE64), "\n", (64, BASE64)),
    ),
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


def without_digits(parts: tuple[str | tuple[int, str], ...]) -> tuple[str | tuple[int, str], ...]:
    """The same key as chance may make it, too: where letters of both sizes may stand, nothing else does."""
    return tuple(
        part if isinstance(part, str) or not {"a", "z", "A", "Z"} <= set(part[1]) else (part[0], LOWER + UPPER)
        for part in parts
    )


def keys(each: int = 3) -> Iterator[tuple[str, str, str]]:
    """Service, a key, and the part of it that is secret."""
    for number, (service, parts) in enumerate(SHAPES.items()):
        for turn in range(each):
            key = made(parts, number * 100 + turn)
            yield service, key, secret_in(parts, key)
