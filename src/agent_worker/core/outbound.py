"""Where we may connect to, and how long we listen there.

`check_url` looks at the text, `check_address` at what the name turned out to be when the connection is made; both
are needed, because a name may answer differently the second time. Knows no provider and opens no connection.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass, pattern

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_REMEMBERED = 256  # addresses: each is looked at again with every request
_LOCAL_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home.arpa")
_NUMBER = pattern(r"(0x[0-9a-f]*|\d+)\Z")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how much we listen to a provider, in seconds and bytes."""

    connect: float = 10
    silence: float = 300  #: between two pieces of an answer; models may think for minutes without a word
    total: float = 1800
    leave: float = 1  #: for the end of what has said all it has to say
    body: int = 64 * 1024 * 1024  #: a long answer, at some 300 bytes for each token of a stream
    calls: int = 128  #: tool calls in one answer


NOT_TOO_LONG = Patience()


@lru_cache(_REMEMBERED)
def check_url(url: str, *, allow_local: bool = False) -> str:
    """The address without a slash at its end. BadInput when it is malformed, or leads into the local network."""
    if url != url.strip() or any(ord(c) <= 32 or c == "\\" for c in url):
        raise BadInput(f"base_url {url!r} has characters that are not allowed in an address")
    parts = _split(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https"):
        raise BadInput(f"base_url {url!r} must start with https://")
    if not host or host.endswith(".") or "%" in host:
        raise BadInput(f"base_url {url!r} does not name a host")
    if parts.username is not None or parts.password is not None:
        raise BadInput("base_url must not contain a user name or password", hint="use api_key: $VARIABLE")
    if parts.query or parts.fragment:
        raise BadInput(f"base_url {url!r} must end with its path, without ? or #")
    if address := literal(host):
        check_address(host, address, allow_local=allow_local)
    elif not allow_local and _is_local_name(host):
        raise BadInput(f"base_url points to {host}, which is in the local network", hint=_HOW_TO_ALLOW)
    if parts.scheme == "http" and not allow_local:
        raise BadInput(f"base_url {url!r} would send the key unencrypted", hint="use https://")
    return url.rstrip("/")


def check_address(host: str, address: IPAddress, *, allow_local: bool = False) -> None:
    """Raise BadInput for an address that is not on the public Internet. Link-local ones (metadata)
    are never allowed.
    """
    real = _innermost(address)
    if real.is_link_local or real.is_multicast or real.is_unspecified:
        raise BadInput(f"{host} is {real}, which is not a server's address")
    if not real.is_global and not allow_local:
        raise BadInput(f"{host} is {real}, an address of the local network", hint=_HOW_TO_ALLOW)


@lru_cache(_REMEMBERED)
def literal(host: str) -> IPAddress | None:
    """The address that a host is written as; None for a name. Refuses the spellings that hide an address."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    # 2130706433, 0177.0.0.1 and 127.1 are all the loopback address to a resolver.
    if _NUMBER.match(host.rsplit(".", 1)[-1]):
        raise BadInput(f"{host} is a number, not a host name", hint="write the address as four decimal numbers")
    return None


@lru_cache(_REMEMBERED)
def host_of(url: str) -> str:
    return _split(url).hostname or ""


@lru_cache(_REMEMBERED)
def is_local(url: str) -> bool:
    """Whether a URL leads into the local network, judged by its text."""
    host = host_of(url)
    address = literal(host)
    return not _innermost(address).is_global if address else _is_local_name(host)


def port_of(url: str) -> int:
    parts = _split(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def is_this_machine(host: str) -> bool:
    """Whether this is a host's name for itself."""
    address = literal(host)
    return host == "localhost" or bool(address and address.is_loopback)


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """The user's proxy for a URL, because a client that is handed a transport does not look for it itself."""
    host, scheme = host_of(url), url.split(":", 1)[0]
    if is_this_machine(host):
        return None
    exceptions = (env.get("no_proxy") or env.get("NO_PROXY") or "").lower().split(",")
    if any(_is_meant(exception.strip(), host, port_of(url)) for exception in exceptions):
        return None
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    return next((env[name] for name in names if env.get(name)), None)


def _is_meant(exception: str, host: str, port: int) -> bool:
    """Whether one entry of NO_PROXY means this server: by its name or one above it, its address or its network, all of
    them with a port or without."""
    if exception == "*":
        return True
    address = literal(host)
    if address and "/" in exception:
        try:
            return address in ipaddress.ip_network(exception, strict=False)
        except ValueError:
            return False
    named, colon, behind = exception.rpartition(":")
    if colon and behind == str(port) and (":" not in named or named.endswith("]")):
        exception = named
    name = exception.strip("[]") if address else exception.lstrip("*.")
    return bool(name) and (host == name or host.endswith(f".{name}"))


async def resolve(host: str, port: int) -> list[IPAddress]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(info[4][0]) for info in found]
    # They are tried one after the other, and IPv4 is the one that works where IPv6 is half set up.
    return sorted(addresses, key=lambda address: address.version)


Resolve = Callable[[str, int], Awaitable[list[IPAddress]]]


async def checked_addresses(
    host: str, port: int, *, allow_local: bool = False, resolve: Resolve = resolve
) -> list[IPAddress]:
    """The addresses that a host name stands for now. Raises BadInput when we must not connect to one of them."""
    addresses = await resolve(host, port)
    for address in addresses:
        check_address(host, address, allow_local=allow_local)
    return addresses


_HOW_TO_ALLOW = "only you can allow a provider in the local network; a file of the project cannot"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises when it is no number
    except ValueError:
        raise BadInput(f"base_url {url!r} is not an address", hint="write https://host/path") from None
    return parts


def _is_local_name(host: str) -> bool:
    return any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES)


def _innermost(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 one only wraps."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)
