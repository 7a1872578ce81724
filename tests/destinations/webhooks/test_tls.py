"""TLS to a pinned address: the certificate must be for the name in the URL."""

from __future__ import annotations

import io
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from duebox.destinations.webhooks.endpoint_delivery import request_template
from duebox.destinations.webhooks.http import HttpClient, made_context
from duebox.destinations.webhooks.signatures import signing_keys
from duebox.destinations.webhooks.url_guard import Guard
from duebox.exceptions import Undelivered
from tests.destinations.conformance import a_fact
from tests.destinations.stages.webhooks import SECRET
from tests.destinations.webhooks.receiver import Receiver, read_request
from tests.destinations.webhooks.sending import OK


class Authority:
    """Signs certificates, and is trusted by who has its file."""

    def __init__(self, folder):
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests only")])
        own = self._certificate(self.name, self.key.public_key(), x509.BasicConstraints(ca=True, path_length=0))
        self.file = folder / "authority.pem"
        self.file.write_bytes(own.public_bytes(Encoding.PEM))

    def context_for(self, host, ends=timedelta(days=1)):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        certificate = self._certificate(subject, key.public_key(), names, ends=ends)
        file = self.folder / f"{host}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _certificate(self, subject, public_key, *extensions, ends=timedelta(days=1)):
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            self.name, subject, public_key, x509.random_serial_number(), now - timedelta(days=2), now + ends
        )
        for each in extensions:
            builder = builder.add_extension(each, critical=isinstance(each, x509.BasicConstraints))
        identity = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(identity, critical=False)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        if subject == self.name:
            usage = dict.fromkeys(
                ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
                 "encipher_only", "decipher_only"), False,
            )  # fmt: skip
            builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        return builder.sign(self.key, SHA256())


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def send(receiver, host="hooks.test", ca_file="", times=3):
    """To the receiver, under a name that leads to it."""

    def resolver(host, port, **kwargs):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    guard = Guard(ports=[receiver.port], allow_private=[host], resolver=resolver)
    target = guard.read(f"https://{host}:{receiver.port}/hook")
    wire = HttpClient(guard, made_context(str(ca_file)), 2.0)
    paper = request_template(target, signing_keys([SECRET]), {})
    try:
        return [wire.exchange(target, paper.request(a_fact().row, int(time.time()))).status for _ in range(times)]
    finally:
        wire.close()


def test_the_right_name_is_talked_to_and_told_to_the_server(authority):
    context, told = authority.context_for("hooks.test"), []
    context.sni_callback = lambda sock, name, context: told.append(name)
    with Receiver(context) as receiver:
        assert send(receiver, ca_file=authority.file) == [200, 200, 200]
    assert told == ["hooks.test"]
    assert len({got.connection for got in receiver.got}) == 1


def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next_one(authority, scripted):
    """It came in the same record of TLS: the socket has nothing more to read, and neither has the buffer above it."""
    context = authority.context_for("hooks.test")
    begins = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Pad: "
    first = begins + b"a" * (io.DEFAULT_BUFFER_SIZE - len(begins) - 4) + b"\r\n\r\n"

    def play(sock):
        with context.wrap_socket(sock, server_side=True) as secure:
            read_request(secure)
            secure.sendall(first + OK if server.connections == 1 else b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
            read_request(secure)

    server = scripted(play)
    assert send(server, ca_file=authority.file, times=2) == [200, 500]


def test_a_certificate_for_another_name_is_refused_before_anything_is_sent(authority):
    with Receiver(authority.context_for("other.test")) as receiver:
        with pytest.raises(Undelivered, match=r"The certificate of hooks\.test is not accepted"):
            send(receiver, ca_file=authority.file)
        assert receiver.got == []


def test_an_authority_that_nobody_trusts_is_refused(authority):
    with Receiver(authority.context_for("hooks.test")) as receiver:
        with pytest.raises(Undelivered, match=r"The certificate of hooks\.test is not accepted"):
            send(receiver)
        assert receiver.got == []


def test_a_certificate_that_has_ended_is_refused(authority):
    with Receiver(authority.context_for("hooks.test", ends=timedelta(hours=-1))) as receiver:
        with pytest.raises(Undelivered, match="expired"):
            send(receiver, ca_file=authority.file)
        assert receiver.got == []


def test_who_does_not_speak_tls_is_left_alone():
    with Receiver() as receiver, pytest.raises(Undelivered, match=r"TLS with hooks\.test failed"):
        send(receiver)


def test_a_file_of_authorities_that_is_not_there_is_named(configure):
    from duebox.exceptions import InvalidDestination

    with pytest.raises(InvalidDestination, match=r"ca_file '/nowhere\.pem' cannot be read"):
        configure(ca_file="/nowhere.pem")
