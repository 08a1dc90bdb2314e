"""The error table against ``org.apache.kafka.common.protocol.Errors`` in the real jar."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import kgtool
from kgtool.protocol import codes
from kgtool.sandbox.install.jars import DEFAULT_VERSION
from tests.protocol.jvm import Kafka, kafka_classes


def read_errors(kafka: Kafka) -> dict[int, codes.Code]:
    """All constants of the real enum."""
    retriable = kafka.common.errors.RetriableException._java_lang_class
    found = {}
    for error in kafka.common.protocol.Errors.values():
        exception = error.exception()
        found[error.code()] = codes.Code(
            error.code(),
            error.name(),
            exception is not None and retriable.isInstance(exception),
            "" if exception is None else exception.getClass().getSimpleName(),
            error.message(),
        )
    return found


def test_the_table_is_kafkas_enum() -> None:
    with kafka_classes(DEFAULT_VERSION) as kafka:
        theirs = read_errors(kafka)
    assert len(theirs) > 130
    assert theirs == codes.CODES


def test_named_constants_are_the_codes_of_that_name() -> None:
    named = {
        name: value
        for name, value in vars(codes).items()
        if name.isupper() and isinstance(value, int)
    }
    assert len(named) > 20
    for name, value in named.items():
        assert codes.CODES[value].name == name


def test_a_code_from_the_future_has_a_name() -> None:
    error = codes.broker_error(9999)
    assert (error.code, error.name, error.retriable) == (9999, "ERROR_9999", False)
    assert "9999" in str(error)


def test_the_brokers_own_words_win() -> None:
    assert str(codes.broker_error(69, "Group g not found.")) == "Group g not found."
    assert str(codes.broker_error(69)) == "The group id does not exist."
    assert codes.broker_error(14).retriable


def test_the_table_is_read_from_a_zip_file_too(tmp_path: Path) -> None:
    """As Spark's workers on other machines import the package."""
    package = Path(kgtool.__file__).parent
    with zipfile.ZipFile(tmp_path / "kgtool.zip", "w") as archive:
        for path in package.rglob("*.*"):
            archive.write(path, path.relative_to(package.parent))
    code = "from kgtool.protocol.codes import CODES; print(CODES[69].name)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'kgtool.zip'); {code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("GROUP_ID_NOT_FOUND\n", "")
