"""Sizes and the SBOM of an installation."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.release.artefacts import ReleaseError
from tools.release.environment import Environment, check_sizes, installed_sizes, size_table, without_traces


def test_an_installation_within_the_limit_passes_and_a_larger_one_is_refused_with_its_parts() -> None:
    check_sizes({"large": 600.0, "small": 99.0})

    with pytest.raises(ReleaseError, match=r"(?s)takes 702 MB, the limit is 700 MB.*\| large \| 600\.0 \|"):
        check_sizes({"large": 600.0, "small": 102.0})


def test_the_table_sums_up_what_it_does_not_list() -> None:
    assert size_table({"one": 3.0, "two": 2.0, "three": 1.0}, rows=1).splitlines()[2:] == [
        "| one | 3.0 |",
        "| 2 others | 3.0 |",
        "| all | 6.0 |",
    ]


def test_the_size_of_a_package_is_that_of_its_files_and_pip_does_not_count(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    for name, size in (("one", 2_000_000), ("pip", 5_000_000)):
        about = environment.packages / f"{name}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n")
        (about / "RECORD").write_text(f"{name}.py,,\n")
        (environment.packages / f"{name}.py").write_bytes(b"#" * size)

    assert installed_sizes(environment) == {"one": 2.0}


def test_an_sbom_names_neither_installers_nor_files_of_the_machine_that_made_it() -> None:
    document = {
        "components": [
            {"bom-ref": "pip==1", "name": "pip"},
            {"bom-ref": "one==1", "name": "one", "externalReferences": [{"url": "file:///home/me/one.whl"}]},
            {"bom-ref": "two==1", "name": "two", "externalReferences": [{"url": "https://example.org"}]},
        ],
        "dependencies": [{"ref": "one==1", "dependsOn": ["two==1"]}, {"ref": "pip==1"}, {"ref": "two==1"}],
    }

    cleaned = without_traces(document)

    assert [one["bom-ref"] for one in cleaned["components"]] == ["one==1", "two==1"]
    assert [one["ref"] for one in cleaned["dependencies"]] == ["one==1", "two==1"]
    assert [one["externalReferences"] for one in cleaned["components"]] == [[], [{"url": "https://example.org"}]]
