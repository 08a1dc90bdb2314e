"""Kafka's client properties, and those that kgtool can't use.

Java's clients ignore unknown names, and a misspelt ``sasl.mechanism`` then looks like a broken
login. So names that are similar to a known one, or in a namespace of the security settings, are
reported. Custom classes that a login or TLS depends on can't be run here, and are refused.
"""

from __future__ import annotations

from kgtool.config.properties import Properties
from kgtool.errors import ConfigError

_NAMES = """
    bootstrap.controllers bootstrap.resolve.timeout.ms bootstrap.servers client.dns.lookup
    client.id config.providers connections.max.idle.ms default.api.timeout.ms enable.metrics.push
    metadata.cluster.check.enable metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.allow.unverified.audience
    sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites
    ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
    ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
NAMES = frozenset(_NAMES.split())
"""``AdminClientConfig.configNames()`` of 4.4.0; a test asks the class."""

_SECURITY = ("ssl.", "sasl.", "security.")
"""Every unknown name that begins like that is a mistake."""
_SIMILAR = 0.85
_PRODUCERS = "metadata.max.idle.ms"
_LIBRDKAFKA = {
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.kerberos.principal": "sasl.jaas.config",
    "sasl.kerberos.keytab": "sasl.jaas.config",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.ca.location": "ssl.truststore.location (with ssl.truststore.type=PEM)",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location (with ssl.keystore.type=PEM)",
    "ssl.key.location": "ssl.keystore.location (with ssl.keystore.type=PEM)",
    "enable.ssl.certificate.verification": "ssl.endpoint.identification.algorithm",
}
"""The names of librdkafka for the same settings."""


def suspicious_names(properties: Properties, where: str) -> tuple[str, ...]:
    """Return a sentence for each unknown property that looks like a mistake.

    :param where: the file or context, for the sentences. No sentence shows a value.
    """
    unknown = (key for key in properties if key not in NAMES)
    return tuple(filter(None, (_suspicion(key, where) for key in unknown)))


def _suspicion(key: str, where: str) -> str | None:
    if key.startswith("config.providers."):
        return None
    if key in _LIBRDKAFKA:
        return f"{where} has {key}, which is librdkafka's; here it is {_LIBRDKAFKA[key]}."
    from difflib import get_close_matches

    # A producer's setting that looks like a client's.
    similar = get_close_matches(key, NAMES, 1, _SIMILAR) if key != _PRODUCERS else []
    if not similar and not key.startswith(_SECURITY):
        return None  # a consumer's or producer's: many share one file with those
    meant = f" Is {similar[0]} meant?" if similar else ""
    return f"{where} has {key}, which is not a client property and is ignored.{meant}"


_UNUSED = (
    "default.api.timeout.ms",
    "retries",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
)


def unused_properties(properties: Properties, where: str) -> tuple[str, ...]:
    """Return a sentence about the timeouts that kgtool does not use, if there are any.

    :param where: the file or context, for the sentence.
    """
    found = [key for key in _UNUSED if key in properties]
    if not found:
        return ()
    named = f"{', '.join(found)}, which {'is' if len(found) == 1 else 'are'} not used"
    return (f"{where} has {named}: kgtool retries until --timeout is over.",)


_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_AWS = "software.amazon.msk.auth.iam."
KNOWN_CLASSES = {
    "sasl.login.callback.handler.class": (
        f"{_OAUTH}OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
        f"{_AWS}IAMOAuthBearerLoginCallbackHandler",
    ),
    "sasl.client.callback.handler.class": (
        f"{_AWS}IAMClientCallbackHandler",
        f"{_AWS}IAMOAuthBearerLoginCallbackHandler",
    ),
    "sasl.login.class": (),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_OAUTH}DefaultJwtRetriever",
        f"{_OAUTH}ClientCredentialsJwtRetriever",
        f"{_OAUTH}FileJwtRetriever",
        f"{_OAUTH}JwtBearerJwtRetriever",
    ),
    "ssl.engine.factory.class": ("org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",),
}
"""The classes of a login or of TLS that kgtool replaces."""


def check_classes(properties: Properties, protocol: str, where: str) -> None:
    """Refuse custom classes that a login or TLS depends on.

    :param protocol: the ``security.protocol``; properties that it does not use are not checked.
    :raises ConfigError: names the property and the class, with a hint.
    """
    for key, known in KNOWN_CLASSES.items():
        is_used = "SASL" in protocol if key.startswith("sasl.") else "SSL" in protocol
        if is_used and "oauthbearer" in key:
            is_used = properties.value("sasl.mechanism") == "OAUTHBEARER"
        value = properties.value(key)
        if not (is_used and value) or value in known:
            continue
        raise ConfigError(
            f"{key}={value} in {where} is a Java class that kgtool can't run.",
            hint="docs/secured-clusters.rst says which logins kgtool has.",
        )
