"""The report: one page that opens from disk, and the same figures and numbers as files.

The report is made of result files (``bequest.paper.store``) alone, and the same results give the
same bytes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from bequest import extras, files
from bequest.paper import store
from bequest.paper.report import palette, plots
from bequest.paper.report.markup import code, each, escape, table
from bequest.paper.report.measures import DIVERGED, counted
from bequest.paper.report.sections import ITEMS
from bequest.paper.report.sections.base import Account, CsvRow, Item
from bequest.paper.report.verdicts import RULE, Check, Grade, Verdict, verdict
from bequest.paper.store import Result

FOLDER = "report"
_CLASSES = {
    Grade.IN_RANGE: "good",
    Grade.BETTER: "better",
    Grade.DIFFERS: "differs",
    Grade.MET: "good",
    Grade.MISSED: "differs",
    Grade.AT_ROUNDING: "good",
}
_COLUMNS = (
    "setting",
    "subject",
    "quantity",
    "seeds",
    "diverged",
    "median",
    "lower quartile",
    "upper quartile",
    "worst",
    "paper",
)


def build(folder: Path) -> list[Path]:
    """Write the report on the results in a folder; return what was written.

    Args:
        folder: holds ``results/``; the report goes into ``report/`` beside it.

    Raises:
        InvalidResult: a result file cannot be used.
        CannotWrite: the report cannot be written there.
        NotInstalled: matplotlib is not installed.
    """
    extras.need("plot", what="The report")
    results = {item.study: store.read_all(folder, item.study) for item in ITEMS}
    accounts = {item.study: item.tell(results[item.study]) for item in ITEMS if results[item.study]}
    target = folder / FOLDER
    contents: dict[str, bytes] = {}
    for study, account in accounts.items():
        for suffix, content in plots.files(account.chart).items():
            contents[f"{study}.{suffix}"] = content
        contents[f"{study}.csv"] = _csv(account.csv).encode()
    # last, so that all files that the page points to are there
    contents["index.html"] = _page(results, accounts).encode()
    files.make_folder(target)
    for name, content in contents.items():
        files.write(target / name, content)
    return [target / name for name in contents]


def _csv(rows: Sequence[CsvRow]) -> str:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        sample = row.sample
        numbers = (sample.median, sample.lower, sample.upper, sample.worst)
        writer.writerow(
            (
                row.setting,
                row.subject,
                row.quantity,
                sample.n,
                sample.diverged,
                *(_exact(value) for value in numbers),
                "" if row.printed is None else _exact(row.printed),
            )
        )
    return lines.getvalue()


def _exact(value: float) -> str:
    return f"{value:.12g}" if value < float("inf") else DIVERGED


# The page


def _page(results: Mapping[str, Sequence[Result]], accounts: Mapping[str, Account]) -> str:
    verdicts = {study: verdict(account.checks) for study, account in accounts.items()}
    title = _title(accounts)
    sections = "\n".join(
        _section(index, item, accounts[item.study], verdicts[item.study])
        if item.study in accounts
        else _absent(index, item)
        for index, item in enumerate(ITEMS, 1)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>bequest: {title[0].lower()}{title[1:]}</title>
<style>
{_style()}
</style>
</head>
<body>
<main>
<header class="top">
<p class="brand">bequest</p>
<h1>{title}</h1>
{_introduction(verdicts)}
</header>
{_summary(accounts, verdicts)}
{_provenance(results)}
{sections}
{_notes()}
</main>
</body>
</html>
"""


def _title(accounts: Mapping[str, Account]) -> str:
    """Return how much of the paper is here."""
    printed = [item.study for item in ITEMS if not item.beyond]
    here = sum(study in accounts for study in printed)
    if here == len(printed):
        return "Every number of the paper, regenerated"
    return f"{here} of the paper's {len(printed)} items, regenerated"


def _style() -> str:
    style = resources.files("bequest.paper.report").joinpath("style", "page.css").read_text("utf-8")
    light, dark = (palette.declarations(colours) for colours in (palette.LIGHT, palette.DARK))
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{style.strip()}"
    )


def _introduction(verdicts: Mapping[str, Verdict]) -> str:
    return (
        '<p class="lead">When a node leaves a decentralized optimization for good, the survivors '
        "forget it. In <em>Robust Decentralized Optimization under Node Failures via Adaptive "
        "Regularization</em> it bequeaths a quadratic memory of its loss, a legacy, to one "
        "neighbour. You know that paper; this page computes its figures, tables and theorems again "
        "and puts what came out beside what is printed, with medians, quartiles and the worst seed "
        f"where the paper has one run. {_tally(verdicts)} Where we differ, the section says why. "
        "Legacy-GT selects its anchors by true distances to the optimum here, as the paper's "
        "experiments do. "
        "The last three sections go beyond the paper, against targets of our own.</p>"
    )


def _tally(verdicts: Mapping[str, Verdict]) -> str:
    printed = [item.study for item in ITEMS if not item.beyond]
    grades = [verdicts[study].grade for study in printed if study in verdicts]
    counts = (
        (grades.count(Grade.IN_RANGE), "is in the paper's range", "are in the paper's range"),
        (grades.count(Grade.BETTER), "is better", "are better"),
        (
            grades.count(Grade.DIFFERS),
            "differs in at least one number or statement",
            "differ in at least one number or statement",
        ),
        (len(printed) - len(grades), "has not been computed", "have not been computed"),
    )
    parts = [counted(n, one, many) for n, one, many in counts if n]
    joined = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    return f"Of its {len(printed)} items, {joined}."


def _badge(grade: Grade) -> str:
    return f'<span class="badge {_CLASSES[grade]}">{grade}</span>'


def _summary(accounts: Mapping[str, Account], verdicts: Mapping[str, Verdict]) -> str:
    rows = []
    for index, item in enumerate(ITEMS, 1):
        if item.study in accounts:
            here, badge = accounts[item.study].brief, _badge(verdicts[item.study].grade)
        else:
            here, badge = "–", '<span class="badge absent">not computed</span>'
        rows.append(
            f'<tr><th scope="row"><a href="#{item.study}">{index}. {item.title}</a> '
            f"{code(item.label)}</th>"
            f'<td data-head="paper">{item.brief}</td><td data-head="here">{here}</td>'
            f"<td>{badge}</td></tr>"
        )
    return (
        '<table class="summary"><thead><tr><th scope="col">item</th><th scope="col">the paper</th>'
        '<th scope="col">here</th><th scope="col">verdict</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _provenance(results: Mapping[str, Sequence[Result]]) -> str:
    everything = [result for found in results.values() for result in found]
    facts: dict[str, dict[str, None]] = {}
    for result in everything:
        for name, value in result.provenance.items():
            facts.setdefault(name, {})[str(value)] = None
    entries = [(name, ", ".join(sorted(values))) for name, values in facts.items()]
    drawn = sorted({int(r.params["seed"]) for r in everything if "seed" in r.params})
    if drawn:
        whole = drawn == list(range(drawn[0], drawn[-1] + 1)) and len(drawn) > 1
        shown = f"{drawn[0]} to {drawn[-1]}" if whole else ", ".join(map(str, drawn))
        entries.append(("seeds", shown))
    entries.append(("result files", str(len(everything))))
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in entries
    )
    return f'<dl class="provenance">{items}</dl>'


def _section(index: int, item: Item, account: Account, found: Verdict) -> str:
    tables = "\n".join(table(content) for content in account.tables)
    notes = each("li", account.notes)
    return f"""<section id="{item.study}">
{_head(index, item)}
<p class="verdict {_CLASSES[found.grade]}">{_told(found)}</p>
<div class="pair">
{_claim(item)}
<div><h3>Here <small>{account.sample}</small></h3>{each("p", account.found)}</div>
</div>
<figure>
{plots.themed(account.chart, name=item.study)}
<figcaption>{account.caption} {account.chart.key}</figcaption>
</figure>
{tables}
<h3>What the verdict rests on</h3>
<ul class="checks">{"".join(_check(check) for check in account.checks)}</ul>
{f'<ul class="notes">{notes}</ul>' if notes else ""}
<footer><div><span>again</span> {code(f"bequest reproduce {item.study}")}</div>
<div class="files">{_links(item.study)}</div></footer>
</section>"""


def _head(index: int, item: Item) -> str:
    return f'<p class="eyebrow">{index} <span>{code(item.label)}</span></p>\n<h2>{item.title}</h2>'


def _claim(item: Item) -> str:
    paragraphs = item.claim.split("\n\n")
    return f"<div><h3>The paper</h3>{each('p', paragraphs)}</div>"


def _told(found: Verdict) -> str:
    """Write the verdict, its grade first and then the reason."""
    rest = str(found).removeprefix(str(found.grade)).lstrip(":, ")
    ending = f'<span class="why">{rest}.</span>' if rest else ""
    return f"{_badge(found.grade)}{ending}"


def _check(check: Check) -> str:
    kind = _CLASSES[check.grade]
    return (
        f'<li class="{kind}"><span class="mark">{_badge(check.grade)}</span>'
        f'<span class="claim">{check.claim}</span><span class="here">{check.here}</span></li>'
    )


def _links(study: str) -> str:
    return " ".join(
        f'<a href="{study}.{suffix}">{suffix.upper()}</a>' for suffix in ("svg", "png", "csv")
    )


def _absent(index: int, item: Item) -> str:
    return f"""<section id="{item.study}" class="missing">
{_head(index, item)}
<p class="verdict absent"><span class="badge absent">not computed</span></p>
<div class="pair">{_claim(item)}
<div><h3>Here</h3><p>This study has not been computed. The command below computes it and writes
this page again.</p></div></div>
<footer><div><span>compute</span> {code(f"bequest reproduce {item.study}")}</div></footer>
</section>"""


def _notes() -> str:
    notes = (
        f"<strong>Verdicts.</strong> {RULE}",
        """<strong>Seeds.</strong> Every number over seeds is given as median, quartiles and worst
        seed; the worst is the largest error, or the smallest gain. A median alone would hide that a
        few seeds go wrong.""",
        """<strong>Errors.</strong> The <em>error</em> after a round is the distance of the worst
        survivor to the optimum of all the data, of those present and of those gone. The <em>limit
        error</em> is the distance of the point the survivors approach, computed directly as the
        minimiser of what is remembered, so that no horizon has to be chosen.""",
        f"""<strong>Divergence.</strong> A run that left every bounded region is reported as
        {DIVERGED}. It counts as worse than any number in medians, quartiles and worst.""",
        f"""<strong>Deviations.</strong> bequest hands the tracker over by z + s + ∇q(x), exact for
        every anchor, in two vectors; passes on what a node had inherited even when the node itself
        is forgotten; compares the branches of eq:anchor in the units of cor:selective, as β may be
        zero; and promises (L/4)[2kδ² + 3∑ε²] in regime (C). The full list, with reasons and tests,
        is {code("bequest docs deviations")}.""",
        """<strong>Baselines.</strong> Classic is what happens without any memory. It is not the
        only alternative: methods with edge variables, such as decentralized ADMM, keep something of
        a departed node too; <a href="#beyond">beyond the paper</a> we measure what that is
        worth.""",
        """<strong>Files.</strong> Figures and tables are drawn from the result files and from
        nothing else; the same results give the same bytes. Each section's figure and numbers are
        beside this page as SVG, PNG and CSV.""",
    )
    return (
        '<section id="method" class="method-notes"><h2>Notes on method</h2><ul>'
        f"{each('li', notes)}</ul></section>"
    )
