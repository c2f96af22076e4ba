"""What is advised when a module that several packages provide cannot be imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.libraries import clash, import_advice, import_silently, installed_versions

NAMES = ("first-build", "second-build")
MISSING = ImportError("libGL.so.1: cannot open shared object file: No such file or directory")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write(folder: Path, *names: str) -> None:
    for name in names:
        about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n")


@pytest.mark.parametrize(
    ("installed", "error", "advice"),
    [
        ((), ImportError("no"), "it is not installed: pip install first-build"),
        (("first-build",), MISSING, "its files are damaged or incomplete: pip install --force-reinstall --no-deps"),
        (("second-build",), MISSING, "second-build needs libGL.so.1, which this system lacks; first-build does not"),
        (("second-build",), ImportError("no"), "try first-build instead: pip uninstall -y second-build && pip install"),
        (NAMES, MISSING, "first-build 1.0 and second-build 1.0 overwrite each other's files"),
    ],
    ids=["none", "the one that is asked for", "one that needs the system", "another one", "both"],
)
def test_the_advice_fits_what_is_installed(
    install: Path, installed: tuple[str, ...], error: Exception, advice: str
) -> None:
    write(install, *installed)

    assert import_advice(error, NAMES).startswith(advice)


def test_one_package_is_no_clash(install: Path) -> None:
    write(install, "second-build")

    assert installed_versions(NAMES) == {"second-build": "1.0"}
    assert clash(NAMES) is None


def test_a_library_that_cannot_be_imported_raises_its_own_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        import_silently("no_such_library")
