"use strict";
// The page that `railwise topo serve` serves: what the jobs of this machine move over each NIC, once a second. `live` is the JSON of
// `railwise top --json`. `boxOf(device, port)`: the box of a NIC in the drawing, or undefined.
const showLive = ({ section, boxOf, make }) => {
  const gb = (bytes) => (bytes === null ? "" : (bytes / 1e9).toFixed(2));
  const title = make("h2", "Now", section);
  title.id = "live-title";
  const said = make("p", "", section);
  said.setAttribute("role", "status");
  const table = make("table", null, make("div", null, section, "scroll"));
  table.setAttribute("aria-labelledby", "live-title");
  const head = make("tr", null, make("thead", null, table));
  const heads = ["NIC", "state", "sends GB/s", "receives GB/s", "busy", "errors", "failovers"];
  heads.forEach((text, i) => { make("th", text, head, i > 1 && i !== 4 ? "n" : "").scope = "col"; });
  const body = make("tbody", null, table);
  const marks = ["live-busy", "live-down"];

  const row = (rail) => {
    const line = make("tr", null, body, rail.state === "up" ? "" : "down");
    const errors = Object.values(rail.errors).reduce((sum, n) => sum + n, 0);
    make("td", rail.device + " port " + rail.port, line);
    make("td", rail.state, line);
    make("td", gb(rail.bytes_sent_per_s), line, "n");
    make("td", gb(rail.bytes_received_per_s), line, "n");
    const busy = make("td", null, line);
    if (rail.load !== null) {
      const bar = make("meter", null, busy);
      bar.value = Math.min(1, rail.load);
      bar.setAttribute("aria-label", "of the speed of " + rail.device + " port " + rail.port);
      make("span", " " + Math.round(rail.load * 100) + " %", busy);
    }
    make("td", String(errors), line, "n");
    make("td", String(rail.failovers), line, "n");
    const box = boxOf(rail.device, rail.port);
    if (!box) return;
    if (rail.state === "down" || rail.state === "failed") box.classList.add("live-down");
    else if (rail.bytes_sent_per_s + rail.bytes_received_per_s > 0) box.classList.add("live-busy");
  };
  const show = (top) => {
    const news = top.news.map((one) => one.text);
    said.textContent = [...news, ...top.notes].join("; ");
    body.replaceChildren();
    table.hidden = top.rails.length === 0;
    for (const mark of marks) for (const box of document.querySelectorAll("." + mark)) box.classList.remove(mark);
    top.rails.forEach(row);
  };
  let asking = false;
  const ask = async () => {
    if (asking) return;
    asking = true;
    try {
      const answer = await fetch("live", { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      show(await answer.json());
      section.dataset.asked = String(Number(section.dataset.asked || 0) + 1);
    } catch {
      said.textContent = "railwise topo serve does not answer any more: what is shown here is old.";
    }
    asking = false;
  };
  section.hidden = false;
  ask();
  setInterval(ask, 1000);
};
