"""Certificates for tests: an authority of our own, and a server that it vouches for."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificates:
    def __init__(self, folder: Path, host: str, *others: str) -> None:
        self.authority = folder / "authority.pem"
        self._served = folder / "served.pem"
        ours, theirs = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        of_us = _builder("authority", "authority", ours).add_extension(x509.BasicConstraints(True, None), True)
        self.authority.write_bytes(of_us.sign(ours, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        names = x509.SubjectAlternativeName([x509.DNSName(name) for name in (host, *others)])
        of_them = _builder(host, "authority", theirs).add_extension(names, False).sign(ours, hashes.SHA256())
        key = theirs.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._served.write_bytes(of_them.public_bytes(serialization.Encoding.PEM) + key)

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._served)
        return context


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
