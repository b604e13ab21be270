"""Golden vectors of protocol/src/pke.rs and protocol/src/sig.rs, from implementations that share no code with them.

    pip install kyber-py==1.2.0 cryptography==48.0.0
    python3 make.py            # rewrites envelope.json and signature.json beside this file

kyber-py (pure Python) encapsulates with a given m; OpenSSL (through cryptography) decapsulates the result as a check,
derives with HKDF and encrypts with AES-256-GCM; OpenSSL signs with RFC 6979. The layouts are written out here from
protocol.md section 7 and the module headers, not taken from the Rust code.
"""

import hashlib
import json
import pathlib

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, mlkem
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from kyber_py.ml_kem import ML_KEM_768

HERE = pathlib.Path(__file__).parent
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # order of P-256


def stretch(label, length):
    """Reproducible test bytes."""
    return hashlib.shake_256(label.encode()).digest(length)


def envelope(number, client, server, plaintext_len):
    seed, m = stretch(f"seed {number}", 64), stretch(f"m {number}", 32)
    names = ("deployment", "epoch", "session", "crs", "root")
    digests = {name: stretch(f"{name} {number}", 32) for name in names}
    plaintext = stretch(f"plaintext {number}", plaintext_len)

    public, _ = ML_KEM_768.key_derive(seed)
    secret, kem_ciphertext = ML_KEM_768._encaps_internal(public, m)
    openssl = mlkem.MLKEM768PrivateKey.from_seed_bytes(seed)
    assert openssl.public_key().public_bytes_raw() == public
    assert openssl.decapsulate(kem_ciphertext) == secret

    associated_data = (
        b"panetiere/envelope/v1"
        + (1).to_bytes(2, "little")
        + digests["deployment"]
        + digests["epoch"]
        + digests["session"]
        + client.to_bytes(4, "little")
        + server.to_bytes(2, "little")
        + digests["crs"]
        + digests["root"]
    )
    okm = HKDF(hashes.SHA256(), 44, salt=None, info=associated_data).derive(secret)
    sealed = kem_ciphertext + AESGCM(okm[:32]).encrypt(okm[32:], plaintext, associated_data)
    return {
        "seed": seed.hex(),
        "m": m.hex(),
        **{name: value.hex() for name, value in digests.items()},
        "client": client,
        "server": server,
        "plaintext": plaintext.hex(),
        "key_digest": hashlib.sha256(public).hexdigest(),
        "associated_data": associated_data.hex(),
        "sealed": sealed.hex(),
    }


def signature(number, domain, message):
    scalar = int.from_bytes(stretch(f"scalar {number}", 32), "big") % (N - 1) + 1
    key = ec.derive_private_key(scalar, ec.SECP256R1())
    framed = b"".join(len(part).to_bytes(8, "little") + part for part in (domain.encode(), message))
    der = key.sign(framed, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    r, s = decode_dss_signature(der)
    return {
        "scalar": scalar.to_bytes(32, "big").hex(),
        "verifying_key": key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint).hex(),
        "domain": domain,
        "message": message.hex(),
        "signature": (r.to_bytes(32, "big") + min(s, N - s).to_bytes(32, "big")).hex(),
        "s_was_high": s > N // 2,
    }


def write(name, vectors):
    (HERE / name).write_text(json.dumps(vectors, indent=1) + "\n")


write("envelope.json", [envelope(0, 0, 0, 0), envelope(1, 299, 7, 33), envelope(2, 0x01020304, 0x0506, 1000)])
write(
    "signature.json",
    [
        signature(number, domain, stretch(f"message {number}", length))
        for number, (domain, length) in enumerate(
            [("panetiere/test/a", 0), ("panetiere/test/a", 1), ("panetiere/test/b", 64), ("", 300), ("x", 55), ("y", 56)]
        )
    ],
)
