"""An episode's page and its Markdown twin as files: drawn from what lies in the episode's folder."""

from __future__ import annotations

from pathlib import Path

from rollout_monitor.report.html import render
from rollout_monitor.report.markdown import summary
from rollout_monitor.store.episodes import FILM, LABELS, PAGE, REPORT, TEXT, read_report
from rollout_monitor.store.files import write_whole
from rollout_monitor.store.film import Film, read_film
from rollout_monitor.store.labels import LabelFact, read_facts


def draw(source: Path, film: Film | None = None) -> tuple[str, str]:
    """The page and its Markdown twin of a stored report, with all that was said about it since.

    Args:
        source: its ``report.json``; pictures, film and labels are looked for around it.
        film: instead of the one beside it.

    Raises:
        StoreError: a report or labels that cannot be read.
    """
    folder, report = source.parent, read_report(source)
    labels = labels_of(folder)
    film = film or read_film(folder / FILM)
    return render(report, folder, film=film, labels=labels), summary(report, labels)


def redraw(folder: Path, film: Film | None = None) -> Path:
    """Draw a stored episode's page and its twin again; return the page. A new film is kept, too.

    Raises:
        StoreError: a report or labels that cannot be read.
        OSError: as the system says, where something cannot be written.
    """
    page, text = draw(folder / REPORT, film)
    if film is not None:
        write_whole(folder / FILM, film.mp4)
    write_whole(folder / TEXT, text.encode())
    write_whole(folder / PAGE, page.encode())
    return folder / PAGE


def labels_of(folder: Path) -> list[LabelFact]:
    """What was said about the episode in a store's folder, in the order it was said."""
    facts, _ = read_facts(folder.parent / LABELS)
    return [fact for fact in facts if fact.episode_id == folder.name]
