"""Properties files: read as java.util.Properties reads them, which is asked itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.config.properties import Properties, is_secret, parse, read_properties
from kgtool.errors import ConfigError
from tests.support import seeds

CASES = {
    "plain": "a=1\nb=2",
    "colon and blank": "a:1\nb 2\nc\t3\nd\f4",
    "blanks around the separator": "a = 1\nb :\t2\nc   3\n  d=4",
    "only one separator": "a==1\nb=:2\nc : = 3",
    "no value": "a\nb=\nc:",
    "no key": "=1",
    "blanks at the end of a value stay": "a=1  \nb=2\t",
    "comments": "# a=1\n! b=2\n  # c=3\nd=4 # not a comment",
    "continued": "a=1,\\\n   2,\\\n\t3\nb=4",
    "continued key": "long\\\n  key=1",
    "a comment is not continued": "# a \\\nb=1",
    "a continued line may look like a comment": "a=1\\\n# 2",
    "a continued line may be blank": "a=1\\\n\nb=2",
    "a backslash alone, then a comment": "\\\n# a=1\nb=2",
    "even backslashes do not continue": "a=1\\\\\nb=2",
    "a backslash at the very end": "a=1\\",
    "line ends": "a=1\rb=2\r\nc=3\\\r\n 4\n\n\nd=5\\\r e",
    "escapes": "a=\\t\\n\\r\\f\\b\\q\\\\\\\"\\'",
    "escaped separators in the key": "a\\=b=1\na\\:b=2\na\\ b=3\n\\#c=4",
    "unicode": "a=\\u0041\\u00e4\\u20ac\nk\\u0041=1",
    "halves of one character": "a=\\ud83d\\ude00",
    "an escaped u": "a=\\\\u0041",
    "Latin 1": "a=\xe4\xf6\xfc\nb\xdf=1",
    "twice": "a=1\na=2",
    "form feed begins a line": "\fa=1",
    "nothing": "",
    "white space only": "  \n\t\n",
    "jaas": 'sasl.jaas.config=LoginModule required \\\n  username="a" \\\n  password="b\\\\"c";',
    "a backslash alone is an empty key": "a=1\n\\",
    "with a line end too": "a=1\n\\\n",
    "but not with two": "a=1\n\\\n\n",
    "nor with one of Windows": "a=1\n\\\r\n",
}


def of_java(java: Any, text: str) -> dict[str, str]:
    """Let Java read a text; bytes, so that it decodes them itself."""
    loaded = java.java.util.Properties()
    loaded.load(java.java.io.ByteArrayInputStream(text.encode("latin-1")))
    return {str(key): str(loaded.getProperty(key)) for key in loaded.stringPropertyNames()}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_as_java_reads_it(java: Any, text: str) -> None:
    assert dict(parse(text)) == of_java(java, text)


def test_random_texts_as_java_reads_them(java: Any) -> None:
    choose = seeds.rng("properties")
    pieces = [
        "a",
        "b",
        "=",
        ":",
        " ",
        "\t",
        "\f",
        "\\",
        "\n",
        "\r",
        "\r\n",
        "#",
        "!",
        "\\u0041",
        "\\n",
        "\xe4",
        "key",
        "\\\\",
        "\\\n",
        "\\\r\n  ",
    ]
    for _ in range(400):
        text = "".join(choose.choices(pieces, k=choose.randrange(1, 30)))
        assert dict(parse(text)) == of_java(java, text), repr(text)


@pytest.mark.parametrize("escape", ["\\u", "\\u12", "\\u12g4", "\\uzzzz"])
def test_a_malformed_escape_is_refused_without_its_value(tmp_path: Path, escape: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"sasl.password=h1dden{escape}\n")
    with pytest.raises(ConfigError, match=r"uxxxx encoding at sasl\.password") as caught:
        read_properties(str(path))
    assert "h1dden" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_the_bytes_of_a_file_are_latin_1_as_for_kafka(java: Any, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes("a=ä€\nb=\\u20ac\n".encode())
    loaded = java.org.apache.kafka.common.utils.Utils.loadProps(str(path))
    assert dict(read_properties(str(path))) == {"a": loaded.get("a"), "b": loaded.get("b")}


def test_files_that_are_none(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(ConfigError, match=str(path)):
            read_properties(str(path))
    (tmp_path / "binary").write_bytes(b"\x00\x01\x02")
    with pytest.raises(ConfigError, match="not a text file"):
        read_properties(str(tmp_path / "binary"))


def test_values_lose_the_blanks_around_them_as_in_kafkas_config() -> None:
    properties = parse("security.protocol=SSL  \nempty=\n")
    assert properties["security.protocol"] == "SSL  "
    assert properties.value("security.protocol") == "SSL"
    assert properties.value("empty") == ""
    assert properties.value("absent") is None
    assert parse("client.id=\\u0001!a!\\u0020").value("client.id") == "!a!"


def test_secrets_are_recognised_by_the_type_that_kafka_gives_them(java: Any) -> None:
    """Every PASSWORD of Kafka's AdminClientConfig, and nothing that has to be seen."""
    from py4j.java_gateway import get_field

    config = java.org.apache.kafka.clients.admin.AdminClientConfig
    keys = config.configDef().configKeys()
    secret = {name for name in keys if str(get_field(keys.get(name), "type")) == "PASSWORD"}
    assert len(secret) >= 9
    assert {name for name in secret if not is_secret(name)} == set()
    for name in (
        "bootstrap.servers",
        "security.protocol",
        "sasl.mechanism",
        "client.id",
        "ssl.truststore.location",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.kerberos.service.name",
    ):
        assert not is_secret(name), name


def test_the_repr_hides_secrets() -> None:
    shown = repr(Properties({"a": "1", "ssl.key.password": "h1dden", "password": "h1dden"}))
    assert "'a': '1'" in shown
    assert "h1dden" not in shown
