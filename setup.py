"""Metadata of the kgtool package."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
SHARE = {
    "share/man/man1": "man/*.1",
    "share/bash-completion/completions": "completions/kgtool.bash",
    "share/zsh/site-functions": "completions/_kgtool",
    "share/fish/vendor_completions.d": "completions/kgtool.fish",
}
"""Where shells and man look for what `make docs` makes."""
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "kgtool/__init__.py").read_text())

ANALYZE = ["pyspark>=4.0,<5", "pandas>=2.2,<3", "pyarrow>=15", "numpy>=1.26", "cramjam>=2.8"]
GSSAPI = ["gssapi>=1.8"]  # compiled at its installation: it needs libkrb5's headers
MSK = ["aws-msk-iam-sasl-signer-python>=1.0"]
DEV = [
    "build>=1",
    "pipx>=1.4",
    "pytest>=8",
    "pytest-xdist>=3.5",
    "hypothesis>=6.100",
    "kio>=0.6",
    "ruff>=0.6",
    "mypy>=1.11",
    "types-tabulate",
    "types-PyYAML",
]

setup(
    name="kgtool",
    version=VERSION.group(1) if VERSION else "0",
    description="Admin toolkit for Kafka consumer groups and their committed offsets",
    long_description=(HERE / "README.rst").read_text(encoding="utf-8"),
    long_description_content_type="text/x-rst",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=["kgtool", "kgtool.*"]),
    package_data={"kgtool": ["py.typed", "analysis/html/*", "sandbox/*.xml", "sandbox/*.txt"]},
    data_files=[
        (folder, sorted(str(path.relative_to(HERE)) for path in HERE.glob(pattern)))
        for folder, pattern in SHARE.items()
    ],
    install_requires=[
        "click>=8.1",
        "confluent-kafka>=2.5",
        "rich>=13",
        "tabulate>=0.9",
        "PyYAML>=6",
        "google-re2>=1.1",
        "cryptography>=42",
        "tomli>=2; python_version < '3.11'",
    ],
    extras_require={
        "analyze": ANALYZE,
        "gssapi": GSSAPI,
        "msk": MSK,
        "dev": [*ANALYZE, *MSK, *DEV],
    },
    entry_points={"console_scripts": ["kgtool = kgtool.cli.main:program"]},
    classifiers=[
        "Environment :: Console",
        "Intended Audience :: System Administrators",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: System :: Distributed Computing",
    ],
)
