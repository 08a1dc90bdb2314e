"""JAAS lines: read as Kafka's JaasConfig reads them, which is asked itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.config import Settings, settings
from kgtool.config.jaas import parse_jaas
from kgtool.config.logins import PasswordLogin, Secret
from kgtool.errors import ConfigError
from tests.support import seeds

GOOD = {
    "plain": 'a.b.PlainLoginModule required username="alice" password="secret";',
    "single quotes": "M required u='al\"ice' p=\"it's\";",
    "escapes": 'M required p="a\\"b\\\\c\\n\\t\\101\\7x\\477";',
    "unquoted": "M required useKeyTab=true name=a-b_c.d$e;",
    "quoted keys": 'M required "user_a=b"="x";',
    "flags in any case": 'M SuFFicient a="1";',
    "no options": "M required;",
    "blanks": '  M\n\trequired\r\n  a = "1"   b="2" ;  ',
    "comments": '/* x; */ M required // y\n a="1" /* "z" */ ;',
    "a slash begins a comment": 'M required / a="1"\n b="2";',
    "a slash at the end of a line": 'M required / \n a="1"/\nb="2"; c="3"\nd="4";',
    "semicolon and equals in a string": 'M required p="a;b=c";',
    "empty string": 'M required p="";',
    "not in ASCII": 'M required p="\xe4\u20ac\u4e2d" \xe4\xf6="1";',
    "twice": 'M required a="1" a="2";',
    "dollar": 'a.B$C required a="1";',
    "a string ends with its line": 'M required a="b\n;',
    "an escaped line end does not": 'M required a="b\\\nc";',
    "a quoted class": '"a.b.C" required a="1";',
}

BAD = {
    "nothing": "",
    "blanks": "  \n ",
    "no flag": "M",
    "wrong flag": 'M mandatory a="1";',
    "no semicolon": 'M required a="1"',
    "no value": "M required a=;",
    "no equals": "M required a;",
    "a number": "M required a=1;",
    "a negative number": "M required a=-1;",
    "a dash": "M required a=-x;",
    "two modules": 'M required a="1"; N required b="2";',
    "only a comment": "// M required;",
    "a path without quotes": "M required keyTab=/etc/kafka.keytab;",
    "flag is a number": "M 1;",
    "a comment without end": 'M required a="1" /* ;',
}


REFUSALS = ("java.lang.IllegalArgumentException", "org.apache.kafka.common.KafkaException")


def of_kafka(java: Any, text: str) -> tuple[str, dict[str, str]] | None:
    """What Kafka reads: the module and its options; None if it refuses the line."""
    from py4j.protocol import Py4JJavaError

    common = java.org.apache.kafka.common
    configs = java.java.util.HashMap()
    configs.put("sasl.jaas.config", common.config.types.Password(text))
    try:
        context = common.security.JaasContext.loadClientContext(configs)
    except Py4JJavaError as error:
        refusal = error.java_exception.getClass().getName()
        assert refusal in REFUSALS, f"Java has a problem of its own with {text!r}: {error}"
        return None
    entry = context.configurationEntries()[0]
    options = entry.getOptions()
    if options.containsKey(None):
        return None  # a key that is no word: Kafka has an option without a name then
    return entry.getLoginModuleName(), {str(k): str(options.get(k)) for k in options}


def of_ours(text: str) -> tuple[str, dict[str, str]] | None:
    try:
        found = parse_jaas(text, "client.properties")
    except ConfigError:
        return None
    return found.module, dict(found.options)


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_lines_that_kafka_reads(java: Any, text: str) -> None:
    assert of_ours(text) is not None
    assert of_ours(text) == of_kafka(java, text)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_lines_that_kafka_refuses(java: Any, text: str) -> None:
    assert of_kafka(java, text) is None
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text, "client.properties")
    assert "client.properties" in str(caught.value)
    assert caught.value.hint


def test_random_lines_as_kafka_reads_them(java: Any) -> None:
    choose = seeds.rng("jaas")
    pieces = [
        "M",
        " required",
        " ",
        "a",
        "=",
        '"',
        "'",
        ";",
        "\\",
        "\n",
        "/",
        "*",
        "//",
        "/*",
        "*/",
        "1",
        "-",
        ".",
        "_",
        "$",
        "\xe4",
        'k="v"',
        ' p="x\\"y"',
        "\\101",
        "\u20ac",
        ":",
        ' a="1"',
        " b='2'",
        " c=d ",
    ]
    agreed = 0
    for _ in range(3000):
        text = "M required" + "".join(choose.choices(pieces, k=choose.randrange(1, 14))) + ";"
        theirs = of_kafka(java, text)
        assert of_ours(text) == theirs, repr(text)
        agreed += theirs is not None
    assert agreed > 50, "enough of them are lines at all"


LEAKY = (
    'M required password="h1dden',
    'M required h1dden "h1dden";',
    'M requi "h1dden";',
    'M required a="h1dden"; h1dden',
)


@pytest.mark.parametrize("text", LEAKY)
def test_a_refusal_shows_no_value(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text, "client.properties")
    assert "h1dden" not in str(caught.value)


def test_the_repr_hides_the_options() -> None:
    found = parse_jaas('M required password="h1dden" secret="h1dden" x="h1dden";', "f")
    assert "h1dden" not in repr(found)


# -- the file that KAFKA_OPTS names -----------------------------------------------------------

FILE = """
/* brokers */ KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b";
};
KafkaClient {  // clients
  org.apache.kafka.common.security.plain.PlainLoginModule REQUIRED
    username="al\\"ice" password='p;}\\\\w';
};
"""


def with_file(text: str, folder: Path, opts: str = "-Xmx1g -D{0}={1} -Dx=y") -> Settings:
    path, config = folder / "jaas.conf", folder / "c.properties"
    path.write_text(text)
    config.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nbootstrap.servers=b:1\n")
    environ = {"KAFKA_OPTS": opts.format("java.security.auth.login.config", path)}
    made = settings(command_config=str(config), environ=environ)
    assert made is not None
    return made


@pytest.mark.parametrize(
    "opts", ["-Xmx1g -D{0}={1} -Dx=y", "-D{0}=={1}", "-D{0}=/nowhere -D{0}={1}", "-D{0}=file:{1}"]
)
def test_a_jaas_file_of_kafka_opts(tmp_path: Path, opts: str) -> None:
    """As Kafka's scripts take it: the section KafkaClient."""
    made = with_file(FILE, tmp_path, opts)
    assert made.security is not None and made.security.sasl is not None
    assert made.security.sasl.login == PasswordLogin('al"ice', Secret("p;}\\w"))
    assert "p;}" not in repr(made)


def test_what_is_given_wins_over_the_file(tmp_path: Path) -> None:
    environ = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"}
    config = tmp_path / "c.properties"
    given = 'bootstrap.servers=b:1\nsasl.jaas.config=a.b required username="u" password="p";\n'
    config.write_text(f"{given}security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n")
    made = settings(command_config=str(config), environ=environ)
    assert made is not None and made.security is not None and made.security.sasl is not None
    assert made.security.sasl.login == PasswordLogin("u", Secret("p"))
    config.write_text("bootstrap.servers=b:1\nsecurity.protocol=SSL\n")
    assert settings(command_config=str(config), environ=environ) is not None  # no login, no file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no section KafkaClient"),
        (FILE.replace("KafkaClient", "Client"), "no section KafkaClient"),
        ("KafkaClient { };", "Login module not specified"),
        ("KafkaClient a.b required;", "a section begins with"),
        ("KafkaClient { a.b required h1dden=1; };", "Value not specified for option 1"),
        ("KafkaClient { a.b required; c.d required; };", "contains 2 login modules"),
        ("KafkaClient { a.b required; }", "a section ends with"),
    ],
)
def test_a_jaas_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        with_file(text, tmp_path)
    assert "jaas.conf" in str(caught.value) and "KAFKA_OPTS" in str(caught.value)
    assert "h1dden" not in str(caught.value)
    with pytest.raises(ConfigError, match="No such file"):
        with_file("", tmp_path, "-D{0}=/nowhere/jaas.conf")
