"""Credentials: ``sasl.jaas.config`` and its relatives, one type a kind of login.

The options are those of Kafka's login modules and callback handlers (PlainLoginModule,
ScramLoginModule, OAuthBearerUnsecuredLoginCallbackHandler, OAuthBearerLoginCallbackHandler), of
Java's Krb5LoginModule and of Amazon's IAMLoginModule.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from kgtool.config.jaas import LoginModule, parse_jaas
from kgtool.config.properties import Properties
from kgtool.errors import ConfigError


class Secret:
    """A password, key or token that is never shown; ``reveal`` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        return "[hidden]"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MSK = "AWS_MSK_IAM"
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER", "GSSAPI", MSK)


class PasswordLogin(NamedTuple):
    """PLAIN and SCRAM; ``is_token``: a delegation token's id and HMAC (KIP-48)."""

    username: str
    password: Secret
    is_token: bool = False


class UnsecuredToken(NamedTuple):
    """An unsigned JWT that kgtool makes (``unsecuredLogin…`` options): for test clusters only."""

    options: Properties


class StaticToken(NamedTuple):
    """A token as it is (``token``), or the file that holds it (``file:`` URL)."""

    token: Secret | None
    file: str | None = None


class ClientCredentials(NamedTuple):
    """The client credentials grant of OAuth 2 at an OIDC provider's token endpoint (KIP-768).

    ``tls`` has the ``ssl.*`` options of the JAAS line, for an endpoint with a certificate of its
    own making; ``urlencode`` is ``sasl.oauthbearer.header.urlencode``.
    """

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None
    tls: Properties
    urlencode: bool = False


class JwtBearer(NamedTuple):
    """The JWT bearer grant of OAuth 2 (RFC 7523): a signed assertion buys a token (KIP-1139).

    The fields are ``sasl.oauthbearer.assertion.*``; ``tls`` as in ``ClientCredentials``.
    """

    url: str
    scope: str | None
    tls: Properties
    algorithm: str
    claims: dict[str, str]
    assertion_file: str | None = None
    key_file: str = ""
    passphrase: Secret | None = None
    template_file: str | None = None
    expires_seconds: int = 300
    not_before_seconds: int = 60
    has_id: bool = False


class AwsLogin(NamedTuple):
    """Where AWS credentials come from: a profile and a role, or (None) boto's usual places."""

    profile: str | None = None
    role_arn: str | None = None
    role_session: str | None = None
    external_id: str | None = None
    sts_region: str | None = None


class OAuthLogin(NamedTuple):
    """OAUTHBEARER: where the token comes from, and the extensions (KIP-342) to send with it."""

    source: UnsecuredToken | StaticToken | ClientCredentials | JwtBearer | AwsLogin
    extensions: dict[str, str]


class KerberosLogin(NamedTuple):
    """GSSAPI: the service's name, and the key table or ticket cache (None: the default one)."""

    service: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None


AnyLogin: TypeAlias = PasswordLogin | OAuthLogin | KerberosLogin | AwsLogin


def login(mechanism: str, properties: Properties, where: str) -> AnyLogin | None:
    """Read the login of a mechanism; None for one that kgtool does not know.

    :raises ConfigError: something that the mechanism needs is missing.
    """
    text = properties.value("sasl.jaas.config")
    module = parse_jaas(text, where) if text else None
    if "sasl.mechanism" not in properties:
        _check_default(module, where)
    if mechanism == "GSSAPI":
        return _kerberos(module, properties, where)
    if mechanism == MSK:
        return _aws(module.options if module else Properties())
    if mechanism == "OAUTHBEARER":
        return _oauth(module, properties, where)
    if mechanism not in MECHANISMS:
        return None
    if module is None:
        raise ConfigError(
            f"sasl.jaas.config is missing in {where}: {mechanism} needs username and password.",
            hint='Expected: CLASS required username="..." password="...";',
        )
    return _password(mechanism, module.options, where)


def _check_default(module: LoginModule | None, where: str) -> None:
    """Refuse the most common mistake: without ``sasl.mechanism``, Kafka uses GSSAPI."""
    if module is None:
        raise ConfigError(
            f"sasl.mechanism and sasl.jaas.config are missing in {where}: a SASL listener needs "
            "both.",
            hint="For Kerberos with the tickets of kinit, sasl.mechanism=GSSAPI is enough.",
        )
    if not module.module.endswith("Krb5LoginModule"):
        name = module.module.rpartition(".")[2]
        raise ConfigError(
            f"sasl.mechanism is missing in {where}: Kafka's default is GSSAPI (Kerberos), but the "
            f"login module is {name}.",
            hint=f"Set sasl.mechanism to one of {', '.join(MECHANISMS)}.",
        )


def _password(mechanism: str, options: Properties, where: str) -> PasswordLogin:
    for name in ("username", "password"):
        if name not in options:
            raise ConfigError(f"sasl.jaas.config in {where} has no {name}: {mechanism} needs it.")
    is_token = options.get("tokenauth", "").lower() == "true"
    return PasswordLogin(options["username"], Secret(options["password"]), is_token)


def _kerberos(module: LoginModule | None, properties: Properties, where: str) -> KerberosLogin:
    options = module.options if module else Properties()
    service = properties.value("sasl.kerberos.service.name") or options.get("serviceName")
    if not service:
        raise ConfigError(
            f"sasl.kerberos.service.name is missing in {where}: it is the first part of the "
            "broker's principal, mostly kafka."
        )
    keytab = options.get("keyTab") if options.get("useKeyTab", "").lower() == "true" else None
    return KerberosLogin(service, options.get("principal"), keytab, options.get("ticketCache"))


def _aws(options: Properties) -> AwsLogin:
    return AwsLogin(
        options.get("awsProfileName"),
        options.get("awsRoleArn"),
        options.get("awsRoleSessionName"),
        options.get("awsRoleExternalId"),
        options.get("awsStsRegion"),
    )


_HTTP = re.compile(
    r"https?://([^/?#]*@)?([^/?#@:\[\]]+|\[[0-9a-f:.%]+\])(:(?P<port>[0-9]*))?([/?#]|$)", re.I
)
_EXTENSION = "extension_"
_NEW = "sasl.oauthbearer.client.credentials."


def _oauth(module: LoginModule | None, properties: Properties, where: str) -> OAuthLogin:
    options = module.options if module else Properties()
    extensions = {
        key[len(_EXTENSION) :]: value
        for key, value in options.items()
        if key.startswith(_EXTENSION)
    }
    if module and module.module.endswith("IAMLoginModule"):
        return OAuthLogin(_aws(options), extensions)
    url = properties.value("sasl.oauthbearer.token.endpoint.url")
    if url and url.lower().startswith("file:"):
        return OAuthLogin(StaticToken(None, _path_of(url)), extensions)
    if url:
        _check_http(url, where)
        name = properties.value("sasl.oauthbearer.jwt.retriever.class") or ""
        read = _jwt_bearer if name.endswith(".JwtBearerJwtRetriever") else _credentials
        return OAuthLogin(read(url, options, properties, where), extensions)
    if "token" in options:
        return OAuthLogin(StaticToken(Secret(options["token"])), extensions)
    if any(key.startswith("unsecuredLogin") for key in options):
        return OAuthLogin(UnsecuredToken(options), extensions)
    raise ConfigError(
        f"{where} does not say where the OAUTHBEARER token comes from.",
        hint="Set sasl.oauthbearer.token.endpoint.url (an https: URL of the provider, or a file: "
        'URL), or give token="..." in sasl.jaas.config.',
    )


def _path_of(url: str) -> str:
    """Return the path of ``file:/x`` and ``file:///x``."""
    path = url[len("file:") :]
    return "/" + path.lstrip("/") if path.startswith("//") else path


def _is_http(url: str) -> bool:
    """Whether a URL names a host, and a port that can be one."""
    found = _HTTP.match(url)
    return found is not None and 0 < int(found["port"] or 80) < 65536


def _check_http(url: str, where: str) -> None:
    if not _is_http(url):
        shown = re.sub("//[^/]*@", "//", url)
        raise ConfigError(
            f"sasl.oauthbearer.token.endpoint.url={shown} in {where} is not an http:, https: or "
            "file: URL."
        )


def _tls(options: Properties) -> Properties:
    return Properties({key: value for key, value in options.items() if key.startswith("ssl.")})


_ASSERTION = "sasl.oauthbearer.assertion."
_ALGORITHMS = ("RS256", "ES256")


def _jwt_bearer(url: str, options: Properties, properties: Properties, where: str) -> JwtBearer:
    said = {
        key.removeprefix(_ASSERTION): properties.value(key) or ""
        for key in properties
        if key.startswith(_ASSERTION)
    }
    algorithm = said.get("algorithm", "RS256")
    if algorithm not in _ALGORITHMS:
        raise ConfigError(
            f"{_ASSERTION}algorithm={algorithm} in {where}: choose one of {', '.join(_ALGORITHMS)}."
        )
    if "file" not in said and "private.key.file" not in said:
        raise ConfigError(
            f"{_ASSERTION}private.key.file is missing in {where}: it signs the assertion (or give "
            f"a finished one with {_ASSERTION}file)."
        )
    passphrase = said.get("private.key.passphrase")
    return JwtBearer(
        url,
        properties.value("sasl.oauthbearer.scope") or options.get("scope"),
        _tls(options),
        algorithm,
        {name: said[f"claim.{name}"] for name in ("aud", "iss", "sub") if f"claim.{name}" in said},
        said.get("file"),
        said.get("private.key.file", ""),
        Secret(passphrase) if passphrase else None,
        said.get("template.file"),
        _seconds(said, "claim.exp.seconds", 300, where),
        _seconds(said, "claim.nbf.seconds", 60, where),
        said.get("claim.jti.include", "").lower() == "true",
    )


def _seconds(said: dict[str, str], name: str, default: int, where: str) -> int:
    text = said.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= 86_400):
        raise ConfigError(f"{_ASSERTION}{name}={text} in {where} is not 0 to 86400 seconds.")
    return int(text)


def _credentials(
    url: str, options: Properties, properties: Properties, where: str
) -> ClientCredentials:
    # The properties are Kafka 4.1's (KIP-1139); before that they were JAAS options.
    client_id = properties.value(f"{_NEW}client.id") or options.get("clientId")
    secret = properties.value(f"{_NEW}client.secret") or options.get("clientSecret")
    if not client_id or secret is None:
        missing = "client.secret" if client_id else "client.id"
        raise ConfigError(
            f"{_NEW}{missing} is missing in {where}: the token endpoint needs it (or "
            f"{'clientSecret' if client_id else 'clientId'} in sasl.jaas.config)."
        )
    return ClientCredentials(
        url,
        client_id,
        Secret(secret),
        properties.value("sasl.oauthbearer.scope") or options.get("scope"),
        _tls(options),
        (properties.value("sasl.oauthbearer.header.urlencode") or "").lower() == "true",
    )
