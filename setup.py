"""Metadata of the kgtool package."""

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
SHARE = {
    "share/man/man1": "man/*.1",
    "share/bash-completion/completions": "completions/kgtool.bash",
    "share/zsh/site-functions": "completions/_kgtool",
    "share/fish/vendor_completions.d": "completions/kgtool.fish",
}
"""Where shells and man look for what `make docs` makes."""
SHIPPED = ("completions", "man")
"""What ``kgtool completion`` and ``kgtool man`` show, within the package."""


class BuildWithShipped(build_py):
    """Copies what `make docs` makes into the package."""

    def run(self):
        """Build, and copy."""
        super().run()
        if self.editable_mode:
            return  # a checkout has them beside the package
        for folder in SHIPPED:
            target = Path(self.build_lib, "kgtool", "shipped", folder)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(HERE / folder, target)


VERSION = re.search(r'__version__ = "(.+)"', (HERE / "kgtool/__init__.py").read_text())

ANALYZE = ["pyspark>=4.0,<5", "pandas>=2.2,<3", "pyarrow>=15", "numpy>=1.26", "cramjam>=2.8"]
GSSAPI = ["gssapi>=1.8"]  # compiled at its installation: it needs libkrb5's headers
MSK = ["aws-msk-iam-sasl-signer-python>=1.0"]
DEV = [
    "build>=1",
    "pipx>=1.4",
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "hypothesis>=6.100",
    "kio>=0.6",
    "ruff>=0.6",
    "sphinx>=7",
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
    cmdclass={"build_py": BuildWithShipped},
    python_requires=">=3.10",
    packages=find_packages(include=["kgtool", "kgtool.*"]),
    package_data={"kgtool": ["py.typed", "analysis/html/*", "sandbox/install/*.txt"]},
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
    entry_points={"console_scripts": ["kgtool = kgtool.cli.app.main:program"]},
    classifiers=[
        "Environment :: Console",
        "Intended Audience :: System Administrators",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: System :: Distributed Computing",
    ],
)
