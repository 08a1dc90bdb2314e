"""AWS credentials, and Amazon's tokens for MSK (the extra ``msk``)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kgtool.errors import AuthenticationError, ConfigError, MissingExtra
from kgtool.protocol.sasl.msk_iam import AwsCredentials, region_of

if TYPE_CHECKING:
    from kgtool.config.logins import AwsLogin

ROLE_SESSION = "kgtool"


def credentials(login: AwsLogin) -> AwsCredentials:
    """Find credentials as boto does: environment, files, container, instance; then take the role.

    :raises MissingExtra: botocore is not installed.
    :raises AuthenticationError: there are none.
    """
    session = _session(login)
    found = _guarded(session.get_credentials)
    if found is None:
        raise AuthenticationError(
            "No AWS credentials were found.",
            hint='Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or awsProfileName="..." in '
            "sasl.jaas.config.",
        )
    if login.role_arn:
        return _assume_role(session, login)
    frozen = _guarded(found.get_frozen_credentials)
    return AwsCredentials(frozen.access_key, frozen.secret_key, frozen.token)


def region(login: AwsLogin, host: str) -> str:
    """Return the region of a broker: from its host name, or from the AWS configuration.

    :raises ConfigError: neither has it.
    """
    # AWS_REGION is what Amazon's Java library looks for, AWS_DEFAULT_REGION what boto does.
    found = region_of(host) or os.environ.get("AWS_REGION")
    found = found or _guarded(lambda: _session(login).get_config_variable("region"))
    if not found:
        raise ConfigError(
            f"The AWS region of {host} is unknown: it is not part of the host name.",
            hint="Set AWS_REGION or AWS_DEFAULT_REGION.",
        )
    return str(found)


def bearer_token(login: AwsLogin, host: str) -> str:
    """Return a token for OAUTHBEARER, made by Amazon's own signer."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Provider
    except ImportError:
        raise _missing("aws-msk-iam-sasl-signer-python") from None
    place = region(login, host)
    if login.role_arn:
        made = _guarded(
            lambda: Provider.generate_auth_token_from_role_arn(
                place, login.role_arn, login.role_session or ROLE_SESSION
            )
        )
    elif login.profile:
        made = _guarded(lambda: Provider.generate_auth_token_from_profile(place, login.profile))
    else:
        made = _guarded(lambda: Provider.generate_auth_token(place))
    token: str = made[0]
    return token


def _session(login: AwsLogin) -> Any:
    try:
        import botocore.session
    except ImportError:
        raise _missing("botocore") from None
    return botocore.session.Session(profile=login.profile)


def _assume_role(session: Any, login: AwsLogin) -> AwsCredentials:
    asked = {"RoleArn": login.role_arn, "RoleSessionName": login.role_session or ROLE_SESSION}
    if login.external_id:
        asked["ExternalId"] = login.external_id
    client = _guarded(lambda: session.create_client("sts", region_name=login.sts_region))
    found = _guarded(lambda: client.assume_role(**asked))["Credentials"]
    return AwsCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])


def _guarded(action: Any) -> Any:
    """Call boto; its errors become an AuthenticationError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return action()
    except (BotoCoreError, ClientError) as error:
        raise AuthenticationError(f"Can't get AWS credentials: {error}".rstrip(".") + ".") from None


def _missing(package: str) -> MissingExtra:
    return MissingExtra(
        f"A login with AWS IAM needs {package}.",
        hint="Install it with: pip install 'kafka-kgtool[msk]'",
    )
