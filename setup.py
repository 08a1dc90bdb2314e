"""What pyproject.toml can't say: the files that `make docs` makes go into the package."""

import shutil
from pathlib import Path

from setuptools import setup
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


setup(
    cmdclass={"build_py": BuildWithShipped},
    data_files=[
        (folder, sorted(str(path.relative_to(HERE)) for path in HERE.glob(pattern)))
        for folder, pattern in SHARE.items()
    ],
)
