"""The page in a real browser: every test ends with an empty console and without a request."""

import json
import time
from threading import Event, Thread
from urllib.parse import urlsplit

import pages
import pytest
from browser import address, complaints, requests
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

import bequest as bq
from bequest.solver import prepare
from bequest.view.live import LivePage
from bequest.view.reading import ShownRun

PAGE = "bequest.page"


def ask(driver, expression):
    return driver.execute_script(f"return {expression}")


def find(driver, selector):
    return driver.find_element(By.CSS_SELECTOR, selector)


def until(driver, expression, seconds=8):
    WebDriverWait(driver, seconds, 0.05).until(lambda d: ask(d, expression))


def settled(driver):
    """Wait until what was asked for is drawn."""
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def click_node(driver, node, run=0):
    x, y = ask(driver, f"{PAGE}.networks[{run}].places[{node}]")
    canvas = driver.find_elements(By.CSS_SELECTOR, "canvas.network")[run]
    box = canvas.rect
    ActionChains(driver).move_to_element_with_offset(
        canvas, round(x - box["width"] / 2), round(y - box["height"] / 2)
    ).click().perform()


def heading(driver):
    return find(driver, "#details h2").text


# --- time ----------------------------------------------------------------------------------


def test_it_plays_pauses_and_stands_still_where_something_happens(driver, eventful):
    driver.get(address(eventful))
    assert ask(driver, f"{PAGE}.clock.round") == 0
    find(driver, "#play").click()
    until(driver, f"{PAGE}.clock.hold && {PAGE}.clock.hold.round === 40")
    until(driver, f"{PAGE}.clock.round > 60")
    assert find(driver, "#play").get_attribute("aria-label") == "Pause"
    find(driver, "#play").click()
    settled(driver)
    stopped = ask(driver, f"{PAGE}.clock.round")
    time.sleep(0.3)
    assert ask(driver, f"{PAGE}.clock.round") == stopped
    assert find(driver, "#now").text == f"{int(stopped)} / 900"


def test_it_plays_to_the_end_and_then_from_the_start_again(driver, eventful):
    driver.get(address(eventful, round=880))
    driver.execute_script(f"{PAGE}.clock.speed = 4")
    find(driver, "#play").click()
    until(driver, f"{PAGE}.clock.round === 900 && !{PAGE}.clock.isPlaying")
    find(driver, "#play").click()
    until(driver, f"{PAGE}.clock.round > 5 && {PAGE}.clock.round < 300")


def test_the_slider_and_the_curves_move_one_cursor(driver, eventful):
    driver.get(address(eventful))
    slider = find(driver, "#round")
    slider.click()  # in the middle
    settled(driver)
    middle = ask(driver, f"{PAGE}.clock.round")
    assert 430 < middle < 470
    assert int(slider.get_attribute("value")) == middle
    before = [one.text for one in driver.find_elements(By.CSS_SELECTOR, ".readout")]
    chart = find(driver, "canvas.chart")
    ActionChains(driver).move_to_element(chart).click_and_hold().move_by_offset(
        80, 0
    ).release().perform()
    settled(driver)
    assert ask(driver, f"{PAGE}.clock.round") > middle + 50
    after = [one.text for one in driver.find_elements(By.CSS_SELECTOR, ".readout")]
    assert len(after) == 4
    assert after != before
    round_ = int(ask(driver, f"{PAGE}.clock.round"))
    error = ask(driver, f"bequest.data.runs[0].curves.error[{round_}]")
    assert float(after[0]) == pytest.approx(error, rel=0.06)


# --- what happened -------------------------------------------------------------------------


def test_a_click_on_a_node_tells_its_story(driver, eventful):
    driver.get(address(eventful, round=420))
    settled(driver)
    click_node(driver, 1)
    settled(driver)
    assert heading(driver) == "Node 1"
    told = find(driver, "#details").text
    assert "It inherited from node 0" in told
    assert "Node 1 left and bequeathed to node" in told
    assert "Branches compared" in told
    find(driver, "#details .back").click()
    settled(driver)
    assert heading(driver) == "What happened"


def test_a_click_on_a_departure_shows_the_branches_it_compared(driver, eventful):
    driver.get(address(eventful))
    settled(driver)
    event = ask(driver, f"{PAGE}.stories[0].events.findIndex((one) => one.node === 3)")
    find(driver, f'#details [data-key="0-{event}"]').click()
    settled(driver)
    assert ask(driver, f"{PAGE}.clock.round") == 120
    assert heading(driver) == "Node 3 left"
    record = ask(driver, f"{PAGE}.stories[0].events[{event}].record")
    rows = driver.find_elements(By.CSS_SELECTOR, ".branches tbody tr")
    assert len(rows) == len(record["predicted"]) == len(record["hindsight"])
    (chosen,) = (row for row in rows if "chosen" in row.get_attribute("class"))
    assert chosen.text.startswith(record["choice"])
    assert find(driver, "#details dl").text.count(record["why"]) == 1
    # A mark on the timeline leads to the same.
    driver.find_elements(By.CSS_SELECTOR, ".mark")[event + 1].click()
    settled(driver)
    assert heading(driver) == "Node 4 left"


def test_the_family_tree_hands_down_and_can_be_clicked(driver, eventful):
    driver.get(address(eventful, round=420))
    settled(driver)
    drawn = driver.find_elements(By.CSS_SELECTOR, "#trees .member")
    heirs = dict(ask(driver, f"[...{PAGE}.stories[0].at(420).heirs]"))
    assert {0, 1, 2, 3, 4, 7} <= set(heirs)  # 0 had inherited from 3, and 1 from 0
    assert len(drawn) > len(heirs)
    memory = find(driver, '#trees [aria-label="Memory of node 3"]')
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", memory)
    memory.click()
    settled(driver)
    assert heading(driver) == "Node 3"


@pytest.mark.parametrize("seed", range(8))
def test_the_page_ends_where_the_engine_ended(driver, tmp_path, seed):
    """Who is there, who talks to whom and who remembers whom follows from the records alone."""
    run, outcome, network = pages.random_one(seed) if seed else pages.eventful()
    driver.get(address(pages.write(tmp_path, "one", run)))
    end = ask(
        driver,
        f"""(() => {{
            const story = {PAGE}.stories[0];
            const state = story.after(story.events.length);
            return {{
                present: [...state.present].sort((a, b) => a - b),
                edges: [...state.edges.values()].map(({{one, other}}) => [one, other]),
                held: {PAGE}.networks[0].words({{round: 1e9}}),
                lost: [...state.lost].filter((node) => !state.present.has(node)),
            }};
        }})()""",
    )
    assert end["present"] == list(outcome.survivors)
    edges = {(one, other) for one in network for other in network[one] if one < other}
    assert {tuple(sorted(edge)) for edge in end["edges"]} == edges
    assert sorted(end["lost"]) == list(outcome.lost)
    for holder, legacy in outcome.inherited.items():
        held = ", ".join(map(str, sorted(legacy.lineage)))
        assert f"node {holder} remembers {held}" in end["held"]


# --- two runs ------------------------------------------------------------------------------


def test_two_runs_stand_side_by_side_on_one_cursor(driver, pair):
    driver.get(address(pair, round=2600))
    settled(driver)
    assert len(driver.find_elements(By.CSS_SELECTOR, "canvas.network")) == 2
    first, second = find(driver, ".readout").text.split("/")
    assert float(first) > 1
    assert float(second) < 1e-10
    titles = [one.text for one in driver.find_elements(By.CSS_SELECTOR, "#networks strong")]
    assert titles == ["forgetting", "remembering"]
    remembered = [
        one.text for one in driver.find_elements(By.CSS_SELECTOR, ".card:nth-of-type(4) strong")
    ]
    assert remembered == ["0 of 4", "4 of 4"]
    find(driver, "#second option[value='-1']").click()
    settled(driver)
    assert len(driver.find_elements(By.CSS_SELECTOR, "canvas.network")) == 1
    assert ask(driver, f"{PAGE}.clock.round") == 2600
    assert "/" not in find(driver, ".readout").text


# --- every reader --------------------------------------------------------------------------


def test_everything_can_be_done_with_keys_alone(driver, eventful):
    driver.get(address(eventful))
    settled(driver)

    def press(*keys):
        ActionChains(driver).send_keys(*keys).perform()
        settled(driver)

    press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert ask(driver, f"{PAGE}.clock.round") == 1
    press("]", "]")
    assert ask(driver, f"{PAGE}.clock.round") == 120
    press("[")
    assert ask(driver, f"{PAGE}.clock.round") == 40
    press(Keys.END)
    assert ask(driver, f"{PAGE}.clock.round") == 900
    press(Keys.HOME, Keys.SPACE)
    until(driver, f"{PAGE}.clock.round > 3")
    press(Keys.SPACE)
    assert not ask(driver, f"{PAGE}.clock.isPlaying")
    press("?")
    assert ask(driver, "document.getElementById('help').open")
    press(Keys.ESCAPE)
    assert not ask(driver, "document.getElementById('help').open")
    for _ in range(12):
        press(Keys.TAB)
        if ask(driver, "document.activeElement.className") == "network":
            break
    assert ask(driver, "document.activeElement.className") == "network"
    press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    assert heading(driver) == "Node 1"
    assert "node 1" in ask(driver, "document.querySelector('#details').innerText").lower()
    press(Keys.ESCAPE)
    assert heading(driver) == "What happened"
    press(Keys.TAB)
    assert ask(driver, "document.activeElement.closest('#details') !== null")
    press(Keys.ENTER)
    assert heading(driver) == "Node 11 joined"


def test_there_is_a_table_behind_every_drawing(driver, eventful):
    driver.get(address(eventful, round=420))
    settled(driver)
    parts = driver.find_elements(By.CSS_SELECTOR, "details.data")
    counts = {}
    for part in parts:
        driver.execute_script("arguments[0].open = true", part)
        until(driver, "[...document.querySelectorAll('details.data[open] table')].length > 0")
        time.sleep(0.05)
        name = part.find_element(By.CSS_SELECTOR, "summary").text.split()[0]
        counts[name] = len(part.find_elements(By.CSS_SELECTOR, "tbody tr"))
    assert counts["Events"] == len(pages.EVENTS)
    assert counts["Nodes"] == 12
    assert counts["Memories"] == 6
    assert 50 < counts["Curves"] < 70
    for canvas in driver.find_elements(By.CSS_SELECTOR, "canvas"):
        until(driver, "document.querySelector('canvas.network').ariaLabel")
        assert canvas.get_attribute("aria-label")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_on_its_ground(driver, eventful, theme):
    driver.get(address(eventful, theme=theme))

    def light(name):
        text = ask(
            driver,
            f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()",
        )
        parts = [int(text[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one, other):
        low, high = sorted((light(one), light(other)))
        return (high + 0.05) / (low + 0.05)

    for ground in ("paper", "page", "soft"):
        for text in ("ink", "muted", "first"):
            assert contrast(text, ground) >= 4.5, (text, ground)
    for sign in ("second", "danger", "heal", "glow"):
        assert contrast(sign, "paper") >= (2.0 if sign == "glow" else 4.5), sign


def test_where_motion_is_not_wanted_time_goes_from_stop_to_stop(driver, eventful):
    media = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    try:
        driver.get(address(eventful))
        driver.execute_script(
            f"const {{clock}} = {PAGE}; window.seen = new Set(); window.held = 0; clock.speed = 4;"
            "clock.listen(() => { seen.add(clock.round); held += clock.hold ? 1 : 0; })"
        )
        find(driver, "#play").click()
        time.sleep(1.5)
        find(driver, "#play").click()
        seen = ask(driver, "[...seen]")
        assert 2 <= len(seen) <= 8
        assert ask(driver, "held") == 0
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_it_prints_without_its_controls(driver, eventful):
    driver.get(address(eventful, round=420, theme="dark"))
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not find(driver, "#timeline").is_displayed()
        ground = ask(driver, "getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        driver.execute_script(
            "window.seen = []; window.addEventListener('beforeprint', () => {"
            "const canvas = document.querySelector('canvas.network');"
            "const [x, y] = bequest.page.networks[0].places[9];"
            "seen.push([...canvas.getContext('2d').getImageData(x - 9, y, 1, 1).data]); })"
        )
        printed = driver.execute_cdp_cmd("Page.printToPDF", {})
        red, green, blue, _ = ask(driver, "seen[0]")
        assert red + green + blue < 400  # dark on white, though the page is light on dark
        assert len(printed["data"]) > 20_000
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


# --- what is unusual -----------------------------------------------------------------------


def test_a_label_from_elsewhere_stays_a_label(driver, tmp_path):
    run, *_ = pages.random_one(1)
    odd = "</script><img src=x onerror='window.broken = 1'>"
    for record in run.document["departures"]:
        record["why"] = record["will"] = odd
    page = pages.write(tmp_path, "odd", ShownRun(odd, odd, run.document, (odd,), False))
    driver.get(address(page))
    settled(driver)
    driver.execute_script(f"{PAGE}.details.goTo(0, {PAGE}.stories[0].events[1])")
    settled(driver)
    assert odd in find(driver, "#details").text + find(driver, "#notes").text
    assert ask(driver, "window.broken === undefined")
    assert find(driver, ".card strong").text == "so far"


def test_more_nodes_than_can_be_drawn_are_an_overview(driver, tmp_path):
    driver.get(address(pages.write(tmp_path, "huge", pages.large(600, 120)), round=60))
    settled(driver)
    assert "edges are left out" in find(driver, "#notes").text
    click_node(driver, 333)
    settled(driver)
    assert heading(driver) == "Node 333"


def test_200_nodes_and_2000_rounds_play_with_more_than_30_frames_a_second(driver, tmp_path):
    driver.get(address(pages.write(tmp_path, "large", pages.large(200, 2000)), round=900))
    driver.execute_script(
        """
        window.frames_ = [];
        const count = (now) => { frames_.push(now); requestAnimationFrame(count); };
        requestAnimationFrame(count);
        bequest.page.clock.play();
        """
    )
    time.sleep(6)
    times = ask(driver, "frames_")
    assert ask(driver, f"{PAGE}.clock.round") > 900
    # A busy machine only takes frames away: the best of these seconds counts.
    rates = [
        sum(start <= t < start + 1000 for t in times) for start in times if start < times[-1] - 1000
    ]
    print(json.dumps({"frames per second": {"best": max(rates), "worst": min(rates)}}))
    assert max(rates) > 30


# --- a run that goes on --------------------------------------------------------------------


def test_a_page_that_is_served_grows_with_its_run(opened):
    """The only test that may ask for something: its own server."""
    gate = Event()
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=4.0, seed=0)
    plan = prepare(problem, bq.graphs.ring(6), departures=[bq.Departure(1, 300)], rounds=900)

    with LivePage() as live:
        live.begin("growing")

        def tell(line):
            if line.get("reading", {}).get("round") == 600:
                gate.wait(20)
            live.tell(line)

        run = Thread(target=lambda: bq.engines.Vector(watch=tell).run(plan))
        run.start()
        opened.get(live.address)
        until(opened, f"{PAGE}.clock.end === 599")
        assert find(opened, ".card strong").text == "so far"
        assert find(opened, ".badge").is_displayed()
        until(opened, f"{PAGE}.stories[0].events.length === 1")
        gate.set()
        run.join(20)
        until(opened, f"{PAGE}.clock.end === 900")
        until(opened, "document.querySelector('.card strong').textContent === 'converged'")
    until(opened, "!document.body.classList.contains('live')")
    assert complaints(opened) == []
    asked = {urlsplit(url).netloc for url in requests(opened)}
    assert asked == {urlsplit(live.address).netloc}
