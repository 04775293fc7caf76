// A run that goes on: what arrives is added to it, and everything is drawn anew.

const NAMES = ["error", "gradient_norm", "disagreement", "invariant_gap"];

// One line of news, as a growing record has it.
export function learn(run, news) {
  if (news.begun) {
    run.rounds = news.begun.rounds;
    // The page was asked for before there was anything to draw.
    if (news.begun.network.nodes !== run.network.nodes) location.reload();
  } else if (news.reading) {
    const { curves } = run;
    const last = curves.rounds.length ? curves.rounds[curves.rounds.length - 1] : -1;
    if (news.reading.round <= last) return;
    curves.rounds.push(news.reading.round);
    curves.of = news.reading.round + 1;
    for (const name of NAMES) {
      if (curves[name]) curves[name].push(news.reading[name] ?? null);
    }
  } else if (news.departure) run.departures.push(news.departure);
  else if (news.change) run.changes.push(news.change);
  else if (news.ended) {
    run.status = news.ended;
    run.whole = true;
    run.notes = [];
  }
}

// Listens to the server that the page came from, until it says that the run is over.
export function follow(run, renewed) {
  const source = new EventSource(`news${location.search}`);
  let waiting = false;
  source.onmessage = (message) => {
    learn(run, JSON.parse(message.data));
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      renewed(source.readyState === EventSource.CLOSED);
    }, 100);
  };
  source.addEventListener("next", () => location.reload());
  source.addEventListener("over", () => {
    source.close();
    renewed(true);
  });
}
