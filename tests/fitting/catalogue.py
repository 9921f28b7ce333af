"""A small catalog as shops export it, with all its oddities."""

import csv

import numpy as np

CLASSES = ("Lenses", "Tripods, Monopods", 'Studio "Light"')


def write_catalogue(folder, nodes=300, seed=0, *, known=0.5):
    """Write `nodes.csv` and `edges.csv`; returns all classes and the known ones, by id."""
    generator = np.random.default_rng(seed)
    labels = np.arange(nodes) % 3
    ids = [f"P-{number:04d}" for number in generator.permutation(nodes)]
    is_known = generator.random(nodes) < known
    is_known[:3] = True
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["sku", "category", "about", "brand", "price", "added", "internal_id"])
        for node, label in enumerate(labels):
            words = generator.choice([f"{'abc'[label]}{k}" for k in range(6)] + ["the", "of"], 5)
            table.writerow([
                ids[node],
                CLASSES[label] if is_known[node] else "",
                "" if node % 40 == 7 else " ".join(words),
                generator.choice(["Ärger", "Blau", "Cie"]),
                "" if node % 30 == 3 else round(float(np.exp(generator.normal(3 + label))), 2),
                f"2020-{1 + node % 12:02d}-{1 + node % 28:02d}",
                5000 + 3 * node,
            ])  # fmt: skip
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["product", "other", "together"])
        for one in range(nodes):
            for other in generator.choice(np.flatnonzero(labels == labels[one]), 3):
                table.writerow([ids[one], ids[other], generator.integers(1, 20)])
        table.writerow([ids[0], "P-gone", 4])
    classes = {ids[node]: CLASSES[labels[node]] for node in range(nodes)}
    return classes, {ids[node]: classes[ids[node]] for node in np.flatnonzero(is_known)}
