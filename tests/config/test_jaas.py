"""JAAS lines: read as Kafka's JaasConfig reads them, which is asked itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kgtool.config.jaas import parse_jaas
from kgtool.errors import ConfigError

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
    choose = random.Random(7)
    pieces = ["M", " required", " ", "a", "=", '"', "'", ";", "\\", "\n", "/", "*", "//", "/*",
              "*/", "1", "-", ".", "_", "$", "\xe4", 'k="v"', ' p="x\\"y"', "\\101", "\u20ac",
              ":", ' a="1"', " b='2'", " c=d "]  # fmt: skip
    agreed = 0
    for _ in range(3000):
        text = "M required" + "".join(choose.choices(pieces, k=choose.randrange(1, 14))) + ";"
        theirs = of_kafka(java, text)
        assert of_ours(text) == theirs, repr(text)
        agreed += theirs is not None
    assert agreed > 50, "enough of them are lines at all"


LEAKY = ('M required password="h1dden', 'M required h1dden "h1dden";', 'M requi "h1dden";',
         'M required a="h1dden"; h1dden')  # fmt: skip


@pytest.mark.parametrize("text", LEAKY)
def test_a_refusal_shows_no_value(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text, "client.properties")
    assert "h1dden" not in str(caught.value)


def test_the_repr_hides_the_options() -> None:
    found = parse_jaas('M required password="h1dden" secret="h1dden" x="h1dden";', "f")
    assert "h1dden" not in repr(found)
