"""Imports form no circle, and the drawing of the layers is what the imports are."""

from __future__ import annotations

from tools.docs.layers import drawing, folder_graph, folder_of, layers, module_graph, modules


def room_of(module: str) -> str:
    """Return the sub-folder that a module is in, or its folder."""
    parts = module.split(".")
    return ".".join(parts[: 3 if len(parts) > 3 or modules()[module].name == "__init__.py" else 2])


def test_no_modules_form_a_circle_when_they_are_imported() -> None:
    assert layers(module_graph(lazy=False))


def test_no_folders_form_a_circle() -> None:
    found = layers(folder_graph())

    level = {name: number for number, names in enumerate(found) for name in names}
    upward = [
        f"{name} imports {other}"
        for name, others in folder_graph().items()
        for other in others
        if level[other] >= level[name]
    ]
    assert upward == []


def test_no_rooms_of_a_folder_form_a_circle() -> None:
    rooms: dict[str, dict[str, set[str]]] = {}
    for module, targets in module_graph(lazy=True).items():
        folder, room = folder_of(module), room_of(module)
        others = {room_of(target) for target in targets if folder_of(target) == folder}
        rooms.setdefault(folder, {}).setdefault(room, set()).update(others - {room, folder})

    found = layers({room: frozenset(others) for graph in rooms.values() for room, others in graph.items()})

    level = {room: number for number, names in enumerate(found) for room in names}
    assert level["sightline.runtime.stats"] < level["sightline.runtime.scheduling"] < level["sightline.runtime.sources"]


def test_the_framework_stands_below_its_plugins() -> None:
    wrong = [
        f"{module} imports {target}"
        for module, targets in module_graph(lazy=True).items()
        for target in targets
        if module.split(".")[0] == "sightline" and target.split(".")[0] == "sightline_plugins"
    ]

    assert wrong == []


def test_every_folder_is_in_the_drawing() -> None:
    text = drawing()

    assert [name for name in map(folder_of, module_graph(lazy=True)) if "." in name and f"`{name}`" not in text] == []


def test_an_import_of_a_name_is_an_import_of_the_module_that_holds_it() -> None:
    assert "sightline.errors" in module_graph(lazy=False)["sightline.graph.registry"]
