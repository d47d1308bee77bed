"""What keys of well-known services look like, so that they are recognised where nobody told us of them.

Each family has hints, one of which must be there before its pattern is tried: nearly every text has none. A pattern
looks at the same text no more than a few times, whatever it is; a test measures the time. Written by hand from what the
services say of their keys: decision 14 says which packages of rules were looked at, and why none is used. A key without
a shape of its own (a password, 32 letters) is not known here; it is, if it stands in the environment.
"""

from __future__ import annotations

import re
from functools import cache

from agent_worker.core.later import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of key."""

    kind: str
    hints: tuple[str, ...]  #: without one of these there is nothing to find
    written: str  #: its pattern: the group that matched is the secret; without one, the text was only passed over
    sign: str = ""  #: where hints stand in honest words too, what tells that there may be a key: see below

    @property
    def pattern(self) -> re.Pattern[str]:
        return _compiled(self.written)

    def hidden_in(self, text: str) -> str:
        return self.pattern.sub(self._hide, text)

    def _hide(self, found: re.Match[str]) -> str:
        if found.lastindex is None:
            return found[0]
        start, end = (place - found.start() for place in found.span(found.lastindex))
        return f"{found[0][:start]}[redacted:{self.kind}]{found[0][end:]}"


#: Many characters after a `_`, `-` or `.`; the pattern itself, which is quick; three parts with dots between them.
SEPARATED, SOLID, DOTTED = "separated", "solid", "dotted"


def _family(kind: str, hints: str, pattern: str, sign: str = "") -> Family:
    return Family(kind, tuple(hints.split()), pattern, sign)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """The compiled pattern, made when it is first needed: most never are, and all of them would slow down every
    command.
    """
    return re.compile(pattern, re.ASCII)


BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
ENDED = re.compile(END)
# Between a name and its value: in a header, YAML, JSON, JSON in JSON, and that in JSON once more.
GIVEN = r"\\{0,7}[\"']?\s{0,3}[:=]\s{0,3}\\{0,7}[\"']?"
HEADERS = r"authorization|(?:x-(?:[a-z]{1,20}-)?)?(?:api-key|(?:auth|access|server|private|job)-token)"
SCHEMES = r"bearer|basic|token|apikey|key|bot|ssws|geniekey"
#: What stands before keys that have no shape of their own.
NAMES = r"secret[_-]?access[_-]?key|session[_-]?token|(?:private|preshared)key"
# `task-…` is no key; but in JSON a key at the beginning of a line comes after the letter of `\n`.
_WORD_START = r"(?:(?<![A-Za-z0-9]sk-)|(?<=\\[nrt]sk-))"
# A short prefix counts at the beginning of a word only, and not inside the letters of a picture.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
_STOP = r"(?![A-Za-z0-9+/_=-])"


def _by_chance(letters: str, size: int) -> str:
    """A look-ahead that what follows is random: it has a digit, or capitals together among small letters.

    The second, because in one of thirty keys with twenty characters all are letters.
    """
    before = f"[{letters}]{{0,{size}}}"
    return f"(?:(?={before}[0-9])|(?={before}[a-z][A-Z])(?={before}[A-Z]{{2}}))"


def _however(words: str) -> str:
    """Hints for these words in each usual case: token, Token, TOKEN."""
    return " ".join(each for word in words.split() for each in (word, word.title(), word.upper()))


def _parameter(names: str, value: str) -> str:
    """The pattern of a value in the query of an address, or in a connection string."""
    return rf"(?<=[?&;])\s?(?i:{names})=({value})"


_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_VALUE = r"[^\s&;#\"'<>\\]"


def _at(prefix: str) -> str:
    """The pattern of a prefix that nothing stands before. The prefix is looked for first: that is much quicker."""
    return rf"{prefix}(?:(?<![A-Za-z0-9_-]{prefix})|(?<=\\[nrt]{prefix}))"


#: In this order: those that hold others come first, and `sk-`, which looks at what is before it, last.
FAMILIES = (
    _family(
        "private-key",
        "-----BEGIN",
        # Without its end, only what can be nothing but a key: a text may speak of such a line.
        rf"({BEGIN}(?:(?:[^-]|-(?!----))*+{END}|(?:(?:\s|\\{{1,7}}[nr])*+(?:Proc-Type|DEK-Info): [\w,-]++)*+"
        r"(?:(?:\s|\\{1,7}[nr])*+[A-Za-z0-9+/=]{32,}+)++))",
    ),
    _family(
        "password",
        "://",
        r"://(?:[^\s/@:\"'<>]{0,256}:([^\s/\"'<>]{1,512})@|(" + _by_chance("A-Za-z_-", 40) + r"[\w-]{20,256})@)",
    ),
    _family("password", _however("password= passwd= pwd="), _parameter("password|passwd|pwd", _VALUE + "{4,}")),
    _family(
        "token",
        _however("token= secret= key= sig= signature="),
        _parameter(
            r"(?:[a-z]{1,10}[_-]){0,2}(?:token|secret|apikey|key|sig|signature)",
            _by_chance(r"^\s&0-9", 40) + _VALUE + "{16,}",
        ),
    ),
    _family(
        "authorization",
        "uthorization UTHORIZATION " + _however("-key -token"),
        rf"(?i:{HEADERS}){GIVEN}(?:(?i:{SCHEMES})\s{{1,3}}([\w.~+/=-]{{8,}})"
        rf"|({_by_chance('A-Za-z_.~+/=-', 64)}[\w.~+/=-]{{16,}}))",
    ),
    _family("npm", ":_auth :_password", r":_(?:authToken|auth|password)\s?=\s?\"?([^\s\"']{8,})"),
    _family("wireguard", "PrivateKey PresharedKey", rf"(?:Private|Preshared)Key{GIVEN}([A-Za-z0-9+/]{{43}}=)"),
    _family("agent-worker", "awdoor_", r"(awdoor_[A-Za-z0-9_-]{43})", SEPARATED),
    # Before jwt: these hold one.
    _family("sentry", "sntrys_ sntryu_", r"(sntrys_[A-Za-z0-9+/=_-]{60,}|sntryu_[0-9a-f]{60,})", SEPARATED),
    _family("1password", "ops_eyJ", r"(ops_eyJ[A-Za-z0-9+/=_-]{100,})", SEPARATED),
    _family("grafana", "eyJrIjoi", rf"({_START}eyJrIjoi[A-Za-z0-9+/=_-]{{60,}})"),
    # Two parts after the first; one that is encrypted has four, and the first of these may be empty.
    _family(
        "jwt",
        "eyJ",
        r"((?:sk\.)?+eyJ[\w-]{10,}+\.(?:[\w-]{5,}+\.[\w-]++|\.[\w-]{5,}+)(?:\.[\w-]++){0,2})|(sk\.eyJ[\w-]{20,}+\.[\w-]{20,}+)|eyJ[\w-]*+",
    ),
    _family(
        "aws",
        "AKIA ASIA ABSK bedrock-api-key- IQoJb3JpZ2lu FwoGZXIvYXdz ccessKey essionToken "
        + _however("access_key access-key accesskey session_token session-token"),
        rf"((?:AKIA|ASIA)[0-9A-Z]{{16}})|(?i:secret[_-]?access[_-]?key){GIVEN}([A-Za-z0-9/+=]{{40,}})"
        rf"|(?i:session[_-]?token){GIVEN}([A-Za-z0-9/+=]{{100,}})"
        rf"|({_START}(?:ABSK|bedrock-api-key-|IQoJb3JpZ2lu|FwoGZXIvYXdz)[A-Za-z0-9+/_-]{{100,}}=*)",
    ),
    _family(
        "github",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
    ),
    _family(
        "gitlab",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glsoat- glagent- gloas- glffct- glwt- GR1348941",
        r"(gl(?:pat|dt|rt|cbt|ptt|ft|imt|soat|agent|oas|ffct|wt)-[\w-]{20,}(?:\.\w+){0,3}|GR1348941[\w-]{20,})",
    ),
    _family(
        "slack",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- hooks.slack.com",
        r"(xox[abcdeoprs]-[\w.%-]{10,}|xapp-[\w-]{10,}|hooks\.slack\.com/[a-z]{1,20}/[\w/-]{20,})",
    ),
    _family(
        "webhook",
        "/api/webhooks/ /webhookb2/ /bot/v2/hook/ /hooks/catch/",
        r"(?:/api/webhooks/\d{5,25}/([\w-]{40,})|/webhookb2/([\w@/-]{60,})|/bot/v2/hook/([\w-]{20,})"
        r"|/hooks/catch/(\d{1,20}/\w{5,}))",
    ),
    _family("google", "AIza ya29. GOCSPX- AQ.Ab8", r"(AIza[\w-]{35,}|(?:ya29\.|GOCSPX-|AQ\.Ab8)[\w-]{20,})"),
    _family(
        "stripe",
        "k_live_ k_test_ k_org_ whsec_",
        r"([rs]k_(?:org_)?(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,})",
    ),
    _family("npm", "npm_", r"(npm_[A-Za-z0-9]{36,})"),
    _family("pypi", "pypi-Ag", r"(pypi-Ag[\w-]{50,})", SEPARATED),
    _family("rubygems", "rubygems_", r"(rubygems_[0-9a-f]{48})", SEPARATED),
    _family("docker", "dckr_", r"(dckr_(?:pat|oat)_[\w-]{20,})", SEPARATED),
    _family("huggingface", "hf_ api_org_", rf"({_START}(?:hf|api_org)_[A-Za-z]{{30,}})"),
    _family("groq", "gsk_", rf"({_START}gsk_[A-Za-z0-9]{{40,}})", SEPARATED),
    _family("xai", "xai-", rf"({_START}xai-[A-Za-z0-9]{{60,}})", SEPARATED),
    _family("perplexity", "pplx-", r"(pplx-[A-Za-z0-9]{40,})", SEPARATED),
    _family("replicate", "r8_", rf"({_START}r8_[A-Za-z0-9]{{30,}})", SEPARATED),
    _family("fireworks", "fw_", rf"({_START}fw_{_by_chance('A-Za-z', 24)}[A-Za-z0-9]{{22,}}{_STOP})", SEPARATED),
    _family("langsmith", "lsv2_", r"(lsv2_(?:pt|sk)_[0-9a-f]{32}(?:_[0-9a-f]{10})?)", SEPARATED),
    _family("nvidia", "nvapi-", r"(nvapi-[\w-]{50,})", SEPARATED),
    _family("tavily", "tvly-", r"(tvly-[\w-]{20,})", SEPARATED),
    _family("sendgrid", "SG.", rf"({_START}SG\.[\w-]{{16,32}}\.[\w-]{{16,64}})", SEPARATED),
    _family("mailgun", "key-", rf"({_START}key-[0-9a-f]{{32}}{_STOP})", SEPARATED),
    _family("mailchimp", "-us", rf"({_START}[0-9a-f]{{32}}-us[0-9]{{1,2}}{_STOP})", SOLID),
    _family("digitalocean", "_v1_", rf"({_START}do[opr]_v1_[0-9a-f]{{64}})", SEPARATED),
    _family("linear", "lin_", rf"({_START}lin_(?:api|oauth|wh)_[A-Za-z0-9]{{32,}})", SEPARATED),
    _family(
        "notion", "ntn_ secret_", rf"({_START}(?:ntn_[A-Za-z0-9]{{40,}}|secret_[A-Za-z0-9]{{43}}{_STOP}))", SEPARATED
    ),
    _family("vault", "hvs. hvb. hvr.", rf"({_START}hv[sbr]\.[\w-]{{24,}})", SEPARATED),
    _family("terraform", ".atlasv1.", r"([A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,})", SEPARATED),
    _family("shopify", "shpat_ shpca_ shppa_ shpss_", r"(shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32})", SEPARATED),
    _family("square", "sq0", rf"({_START}sq0(?:atp|csp|idp)-[\w-]{{22,}})", SEPARATED),
    _family("heroku", "HRKU-", r"(HRKU-[\w-]{36,})", SEPARATED),
    _family(
        "grafana",
        "glsa_ glc_",
        rf"({_START}(?:glsa_[A-Za-z0-9]{{32}}_[0-9a-fA-F]{{8}}|glc_[A-Za-z0-9+/=]{{32,}}))",
        SEPARATED,
    ),
    _family("newrelic", "NRAK- NRII-", r"(NR(?:AK|II)-[A-Za-z0-9_-]{27,})", SEPARATED),
    _family("postman", "PMAK-", r"(PMAK-[0-9a-f]{24}-[0-9a-f]{34})", SEPARATED),
    _family(
        "doppler",
        "dp.",
        rf"({_START}dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?[A-Za-z0-9]{{40,}})",
        SEPARATED,
    ),
    _family("fly", "fo1_", rf"({_START}fo1_[\w-]{{43}})", SEPARATED),
    _family("fly", "fm1_ fm2_ fm1a_ fm1r_", rf"({_START}fm[12][ar]?_[A-Za-z0-9+/=]{{80,}})", SEPARATED),
    _family("atlassian", "ATATT3 ATCTT3", r"(AT[AC]TT3[A-Za-z0-9_=-]{100,})"),
    _family("figma", "figd_ figu_ figr_", rf"({_START}fig[dur]_[\w-]{{36,}})", SEPARATED),
    _family("planetscale", "pscale_", r"(pscale_(?:tkn|oauth|pw)_[\w.=-]{32,})", SEPARATED),
    _family("supabase", "sbp_ sb_secret_", rf"({_START}(?:sbp_[0-9a-f]{{40}}|sb_secret_[\w-]{{22,}}))", SEPARATED),
    _family("pulumi", "pul-", rf"({_START}pul-[0-9a-f]{{40}}{_STOP})", SEPARATED),
    _family("tailscale", "tskey-", r"(tskey-[a-z]{3,12}-[A-Za-z0-9-]{20,})", SEPARATED),
    _family("age", "AGE-SECRET-KEY-", r"(AGE-SECRET-KEY-[A-Z0-9]{50,})", SEPARATED),
    _family(
        "azure",
        "AccountKey= AccessKey= 8Q~",
        r"(?:AccessKey|AccountKey)=([A-Za-z0-9+/=]{40,})|(\w{3}8Q~[\w.~-]{31,34})",
    ),
    _family("azure", "AZDO", rf"({_START}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{_STOP})", SOLID),
    _family("azure", "JQQJ99", r"([A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{20,30})"),
    _family("hubspot", "pat-na pat-eu pat-ap", rf"({_START}pat-(?:na|eu|ap)[0-9]-{_UUID})"),
    _family("brevo", "xkeysib- xsmtpsib-", r"(x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16})"),
    _family("resend", "re_", rf"({_START}re_[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{20,}}{_STOP})", SEPARATED),
    _family("mailersend", "mlsn.", rf"({_START}mlsn\.[0-9a-f]{{64}})", SEPARATED),
    _family("elevenlabs", "sk_", rf"({_START}sk_[0-9a-f]{{48}}{_STOP})", SEPARATED),
    _family("pinecone", "pcsk_", rf"({_START}pcsk_[A-Za-z0-9]{{4,8}}_[A-Za-z0-9]{{50,}})", SEPARATED),
    _family("cerebras", "csk-", rf"({_START}csk-[a-z0-9]{{40,}})", SEPARATED),
    _family("together", "tgp_v1_", r"(tgp_v1_[\w-]{40,})", SEPARATED),
    _family("jina", "jina_", rf"({_START}jina_[0-9a-f]{{32}}[\w-]{{20,}})", SEPARATED),
    _family("firecrawl", "fc-", rf"({_START}fc-[0-9a-f]{{32}}{_STOP})", SEPARATED),
    _family("e2b", "e2b_ dtn_", rf"({_START}(?:e2b_[0-9a-f]{{40}}|dtn_[0-9a-f]{{64}}))", SEPARATED),
    _family("voyage", "pa-", rf"({_START}pa-{_by_chance('A-Za-z_-', 40)}[\w-]{{43}}{_STOP})", SEPARATED),
    _family("cursor", "key_ crsr_", rf"({_START}(?:key|crsr)_[0-9a-f]{{64}}{_STOP})", SEPARATED),
    _family("wandb", "wandb_v1_", r"(wandb_v1_[\w-]{60,})", SEPARATED),
    _family("posthog", "phx_", rf"({_START}phx_[A-Za-z0-9]{{40,}})", SEPARATED),
    _family("neon", "napi_", rf"({_START}napi_[a-z0-9]{{60,}})", SEPARATED),
    _family("render", "rnd_", rf"({_START}rnd_{_by_chance('A-Za-z', 27)}[A-Za-z0-9]{{28,}}{_STOP})", SEPARATED),
    _family("sourcegraph", "sgp_", rf"({_START}sgp_(?:[0-9a-f]{{16}}_|local_)?[0-9a-f]{{40,}})", SEPARATED),
    _family("polar", "polar_", rf"({_START}polar_[a-z]{{2,4}}_[\w-]{{30,}})", SEPARATED),
    _family("aiven", "AVNS_", rf"({_START}AVNS_[\w-]{{18,}})", SEPARATED),
    _family("flutterwave", "FLWSECK", r"(FLWSECK(?:_TEST)?-[0-9a-zA-Z]{32}(?:-X)?)", SEPARATED),
    _family("shippo", "shippo_", r"(shippo_(?:live|test)_[0-9a-f]{40})", SEPARATED),
    _family("prefect", "pnu_ pnb_", rf"({_START}pn[ub]_[A-Za-z0-9]{{36}}{_STOP})", SEPARATED),
    _family("typeform", "tfp_", rf"({_START}tfp_[\w-]{{40,}})", SEPARATED),
    _family("readme", "rdme_", rf"({_START}rdme_[a-z0-9]{{60,}})", SEPARATED),
    _family("clojars", "CLOJARS_", r"(CLOJARS_[a-z0-9]{60})", SEPARATED),
    _family("duffel", "duffel_", r"(duffel_(?:live|test)_[\w-]{40,})", SEPARATED),
    _family("frameio", "fio-u-", rf"({_START}fio-u-[\w-]{{60,}})", SEPARATED),
    _family("infracost", "ico-", rf"({_START}ico-{_by_chance('A-Za-z', 31)}[A-Za-z0-9]{{32}}{_STOP})", SEPARATED),
    _family("adafruit", "aio_", rf"({_START}aio_{_by_chance('A-Za-z', 27)}[A-Za-z0-9]{{28}}{_STOP})", SEPARATED),
    _family("openshift", "sha256~", r"(sha256~[\w-]{43})"),
    _family("harness", "pat. sat.", rf"({_START}[ps]at\.[\w-]{{22}}\.[0-9a-f]{{24}}\.[\w-]{{20}})", SEPARATED),
    _family("octopus", "API-", rf"({_START}API-(?=[A-Z]{{0,25}}[0-9])[A-Z0-9]{{26,32}}{_STOP})", SEPARATED),
    _family("stytch", "secret-", rf"({_START}secret-(?:live|test)-[\w=-]{{35,}})", SEPARATED),
    _family("scalingo", "tk-us-", rf"({_START}tk-us-[\w-]{{48}})", SEPARATED),
    _family("plaid", "access-", rf"({_START}access-(?:sandbox|development|production)-{_UUID})", SEPARATED),
    _family("dropbox", "sl.", rf"({_START}sl\.(?:u\.)?[\w-]{{120,}})", SEPARATED),
    _family("discord", "mfa.", rf"({_START}mfa\.[\w-]{{80,}})", SEPARATED),
    _family("launchdarkly", "sdk-", rf"({_START}sdk-{_UUID}{_STOP})", SEPARATED),
    _family("yandex", "y0_", rf"({_START}y0_[\w-]{{50,}})", SEPARATED),
    _family("clickup", "pk_", rf"({_START}pk_\d{{5,10}}_[A-Z0-9]{{32}}{_STOP})", SEPARATED),
    _family("wakatime", "waka_", rf"({_START}waka_{_UUID})", SEPARATED),
    _family("snyk", "snyk_", rf"({_START}snyk_[us]at\.[\w.-]{{60,}})", SEPARATED),
    _family("infisical", "st.", rf"({_START}st\.[0-9a-f-]{{24,36}}\.[0-9a-f]{{32}}\.[0-9a-f]{{32}})", SEPARATED),
    _family("zuplo", "zpka_", rf"({_START}zpka_[A-Za-z0-9]{{32}}_[A-Za-z0-9]{{8}})", SEPARATED),
    _family("cloudflare", "cfut_ cfat_ cfk_", rf"({_START}cf(?:ut|at|k)_[A-Za-z0-9]{{40,}})", SEPARATED),
    _family("braintree", "access_token$", r"(access_token\$[a-z]{4,12}\$[a-z0-9]{16}\$[0-9a-f]{32})"),
    _family("convex", "prod: dev:", rf"{_START}(?:prod|dev):[a-z0-9-]{{1,60}}\|([A-Za-z0-9+/=_-]{{40,}})"),
    _family("easypost", "EZ", rf"((?:{_at('EZAK')}|{_at('EZTK')})[A-Za-z0-9]{{54}}{_STOP})", SOLID),
    _family("nuget", "oy2", rf"({_at('oy2')}(?=[a-z]{{0,42}}[0-9])[a-z0-9]{{43}}{_STOP})", SOLID),
    _family("bitbucket", "ATBB", rf"({_at('ATBB')}[A-Za-z0-9_=]{{32,36}}{_STOP})", SOLID),
    _family("google", "1//0", rf"({_at('1//0')}[\w-]{{40,}}{_STOP})", SOLID),
    _family("yandex", "AQVN", rf"({_at('AQVN')}[\w-]{{36}}{_STOP})", SOLID),
    _family("artifactory", "AKCp", rf"({_at('AKCp')}[A-Za-z0-9]{{69,}}{_STOP})", SOLID),
    _family("artifactory", "cmVmdGtuOj", rf"({_at('cmVmdGtuOj')}[A-Za-z0-9]{{40,}}={{0,2}})", SOLID),
    _family("confluent", "cflt", rf"({_at('cflt')}[A-Za-z0-9+/]{{60}}{_STOP})", SOLID),
    _family("facebook", "EAA", rf"({_at('EAA')}[A-Za-z0-9]{{90,}}{_STOP})", SOLID),
    _family(
        "twitter", "AAAAAAAAAAAAAAAAAAAAA", rf"({_START}A{{20,24}}(?=[A-Za-z0-9]*+%)[A-Za-z0-9%]{{60,}}{_STOP})", SOLID
    ),
    _family("sonar", "sqp_ squ_ sqa_", rf"({_START}sq[pua]_[0-9a-f]{{40}})", SEPARATED),
    _family("buildkite", "bkua_ bkat_ bkct_", rf"({_START}bk(?:ua|at|ct)_[0-9a-f]{{40}})", SEPARATED),
    _family("circleci", "CCIPAT_ CCIPRJ_", r"(CCIP(?:AT|RJ)_[A-Za-z0-9]{22}_[0-9a-f]{40})", SEPARATED),
    _family("contentful", "CFPAT-", r"(CFPAT-[\w-]{43})", SEPARATED),
    _family("netlify", "nfp_ nfc_ nfo_ nfu_", rf"({_START}nf[pcou]_[A-Za-z0-9]{{36,}})", SEPARATED),
    _family("vercel", "vcp_ vci_ vck_ vca_ vcr_", rf"({_START}vc[pikar]_[A-Za-z0-9]{{24,}})", SEPARATED),
    _family("cloudflare", "v1.0-", rf"({_START}v1\.0-[0-9a-f]{{24}}-[0-9a-f]{{146}})", SEPARATED),
    _family("dynatrace", "dt0", rf"({_at('dt0')}[a-z][0-9]{{2}}\.[A-Z0-9]{{24}}\.[A-Z0-9]{{64}})", SOLID),
    _family("asana", "2/", rf"({_at('2/')}\d{{10,20}}/\d{{10,20}}:[0-9a-f]{{32}})", SOLID),
    _family("twilio", "SK", rf"({_at('SK')}[0-9a-f]{{32}}{_STOP})", SOLID),
    _family("telegram", ":AA", rf"(?:{_START}|(?<=/bot))([0-9]{{8,10}}:AA[\w-]{{32,33}})(?![\w-])", SOLID),
    _family("databricks", "dapi", rf"({_at('dapi')}[0-9a-f]{{32}}(?:-[0-9])?{_STOP})", SOLID),
    _family("square", "EAAA", rf"({_at('EAAA')}[\w-]{{60}}{_STOP})", SOLID),
    _family("alibaba", "LTAI", rf"({_at('LTAI')}[A-Za-z0-9]{{16,20}}{_STOP})", SOLID),
    _family("tencent", "AKID", rf"({_at('AKID')}[A-Za-z0-9]{{32}}{_STOP})", SOLID),
    _family("airtable", "pat", rf"({_at('pat')}[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_STOP})", SOLID),
    _family("crates", "cio", rf"({_at('cio')}{_by_chance('A-Za-z', 31)}[A-Za-z0-9]{{32}}{_STOP})", SOLID),
    _family(
        "discord",
        ".",
        rf"({_START}[MNO]{_by_chance('A-Za-z_-', 25)}[\w-]{{22,27}}"
        rf"\.[\w-]{{6}}\.{_by_chance('A-Za-z_-', 37)}[\w-]{{27,38}}{_STOP})",
        DOTTED,
    ),
    _family("anthropic", "sk-ant-", rf"(sk-{_WORD_START}ant-[\w-]{{20,}})"),
    _family("openai", "sk-", rf"(sk-{_WORD_START}{_by_chance('A-Za-z_-', 40)}[\w-]{{20,}})"),
)
