"use strict";
// The channels of NCCL's search, drawn over the machine: each follows the wires of its paths, on the right side in the direction of travel.
// page: {data, svg, boxes, wires, pair, pathNodes, make} of page.js.
const drawChannels = (page) => {
  const { data, svg, make } = page;
  const picker = document.getElementById("picker");
  const part = document.getElementById("channels");
  if (!data.graphs.length) return { open: () => {} };
  const svgMake = (tag, attributes, parent) => {
    const e = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    if (parent) parent.append(e);
    return e;
  };
  const layer = svgMake("g", { "aria-hidden": "true" }, svg);
  const COLOURS = 8;
  const styleOf = (channel) => "c" + channel % COLOURS + " d" + Math.floor(channel / COLOURS) % 4;

  // The points of a wire, from its first node to its second one.
  const pointsOf = (wire) => {
    const d = wire.getAttribute("d");
    if (d.includes("C")) {
      const length = wire.getTotalLength(), steps = 28;
      return Array.from({ length: steps + 1 }, (_, i) => wire.getPointAtLength(length * i / steps)).map((p) => [p.x, p.y]);
    }
    const numbers = d.match(/-?[\d.]+/g).map(Number);
    return numbers.flatMap((x, i) => i % 2 ? [] : [[x, numbers[i + 1]]]);
  };
  const rectsOf = (node) => (page.boxes.get(node) || []).map((box) => box.querySelector("rect")).filter((rect) => rect)
    .map((rect) => ({ x: +rect.getAttribute("x"), y: +rect.getAttribute("y"), w: +rect.getAttribute("width"), h: +rect.getAttribute("height") }));
  const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  const toRect = (p, r) => Math.hypot(Math.max(r.x - p[0], 0, p[0] - r.x - r.w), Math.max(r.y - p[1], 0, p[1] - r.y - r.h));
  // The box of a node that is nearest to a point: NVSwitches have one on each host.
  const nearest = (node, p) => rectsOf(node).sort((a, b) => toRect(p, a) - toRect(p, b))[0];
  // The wire between two nodes, as points from a to b; between two boxes without one, a straight line.
  const leg = (a, b) => {
    const between = page.wires.get(page.pair(a, b)) || [];
    const wire = between.find((w) => !w.classList.contains("pci")) || between[0];
    if (!wire) return [a, b].flatMap((n) => rectsOf(n).slice(0, 1).map((r) => [r.x + r.w / 2, r.y + r.h / 2]));
    const points = pointsOf(wire), last = points[points.length - 1];
    const [node, first] = rectsOf(a).length ? [a, true] : [b, false];
    const nearer = rectsOf(node).length ? toRect(points[0], nearest(node, points[0])) <= toRect(last, nearest(node, last)) : first;
    return nearer === first ? points : points.reverse();
  };
  const bus = Math.min(...[...svg.querySelectorAll(".wire.fabric")].flatMap((w) => pointsOf(w).map((p) => p[0])));
  const upright = (a, b) => a && b && Math.abs(a[0] - b[0]) < .5;
  // The way along nodes. Where it enters and leaves a box by one edge, it runs inside the box: each channel has two lanes there, one for each
  // direction, wherever `by` shifts it. From NVSwitch to NVSwitch of another row it takes the bus between the hosts.
  const route = (nodes, slot, slots, by) => {
    const seen = nodes.filter((n, i) => i === 0 || i === nodes.length - 1 || page.boxes.has(n));
    const points = [];
    const lane = (rect, right) => rect.y + 3 + (rect.h - 6) * (2 * slot + (right ? 1.5 : .5)) / (2 * slots) + (right ? -by : by);
    for (let i = 1; i < seen.length; i++) {
      const same = (page.boxes.get(seen[i - 1]) || [])[0];
      if (same && same === (page.boxes.get(seen[i]) || [])[0]) continue;
      const next = leg(seen[i - 1], seen[i]);
      if (!next.length) continue;
      const last = points[points.length - 1];
      const from = last && nearest(seen[i - 1], last), to = last && nearest(seen[i - 1], next[0]);
      const rows = from && to && Math.abs(from.y - to.y) > 1;
      if (from && to && (rows || Math.abs(last[1] - next[0][1]) < 1) && distance(last, next[0]) > 1) {
        if (upright(points[points.length - 2], last)) points.pop();
        const first = upright(next[0], next[1]) ? next.shift() : next[0];
        const right = !rows && first[0] > last[0];
        points.push([last[0], lane(from, right)]);
        if (rows) points.push([bus, lane(from, false)], [bus, lane(to, true)]);
        points.push([first[0], lane(to, rows || right)]);
      }
      points.push(...next);
    }
    return points.filter((p, i) => i === 0 || distance(p, points[i - 1]) > .5);
  };
  // The points moved to the right of the direction of travel.
  const shifted = (points, by) => points.map((p, i) => {
    const unit = (a, b) => { const l = distance(a, b) || 1; return [(b[0] - a[0]) / l, (b[1] - a[1]) / l]; };
    const before = i > 0 ? unit(points[i - 1], p) : null, after = i < points.length - 1 ? unit(p, points[i + 1]) : null;
    const a = before || after, b = after || before;
    if (!a) return p;
    const along = a[0] * b[0] + a[1] * b[1];
    const scale = by / Math.max(1 + along, .4);
    return [p[0] - (a[1] + b[1]) * scale, p[1] + (a[0] + b[0]) * scale];
  });
  const draw = (nodes, channel, slot, slots, arrows) => {
    const by = 2 + Math.min(3.2, 18 / slots) * slot;
    const points = shifted(route(nodes, slot, slots, by), by);
    if (points.length < 2) return;
    const d = "M" + points.map((p) => p[0].toFixed(1) + " " + p[1].toFixed(1)).join("L");
    svgMake("path", { class: "halo", d }, layer);
    svgMake("path", { class: "ring " + styleOf(channel), d }, layer);
    if (!arrows) return;
    const end = points[points.length - 1];
    let i = points.length - 2;
    while (i > 0 && distance(points[i], end) < 6) i--;
    const angle = Math.atan2(end[1] - points[i][1], end[0] - points[i][0]) * 180 / Math.PI;
    svgMake("path", { class: "arrow " + styleOf(channel), d: "M1 0L-8 -4.5L-8 4.5Z",
      transform: "translate(" + end[0].toFixed(1) + " " + end[1].toFixed(1) + ") rotate(" + angle.toFixed(0) + ")" }, layer);
  };

  // With one channel the order is told by numbers at the GPUs: lines through an NVSwitch lie on each other.
  const number = (node, position, channel) => {
    const rect = rectsOf(node)[0];
    if (!rect) return;
    const badge = svgMake("g", { class: "badge " + styleOf(channel), transform: "translate(" + (rect.x + 3) + " " + (rect.y + 2) + ")" }, layer);
    svgMake("circle", { r: 9 }, badge);
    svgMake("text", { y: 3.5 }, badge).textContent = position;
  };

  // [from, to] of each hop of a channel.
  const gpu = (i) => ({ kind: "gpu", i }), net = (i) => ({ kind: "net", i });
  const hopsOf = (graph, [, from, to, gpus]) => {
    const hops = gpus.slice(1).map((g, i) => [gpu(gpus[i]), gpu(g)]);
    const last = gpus[gpus.length - 1];
    if (graph.shape === "ring") {
      if (from < 0) return gpus.length > 1 ? [...hops, [gpu(last), gpu(gpus[0])]] : [];
      return [[net(from), gpu(gpus[0])], ...hops, [gpu(last), net(to)]];
    }
    if (from < 0) return hops;
    const sends = graph.shape === "tree" && gpus.length > 1 ? gpus[1] : gpus[0];
    return [[net(from), gpu(gpus[0])], ...hops, [gpu(sends), net(to)]];
  };
  const orderText = (graph, [, from, to, gpus]) => {
    const names = gpus.map((g) => data.gpus[g].name.replace("GPU ", ""));
    const arrow = graph.shape === "ring" ? " \u2192 " : " \u2013 ";
    if (graph.shape === "ring" && from < 0) names.push(names[0]);
    return names.join(arrow);
  };

  let graph = data.graphs[0];
  let shown = new Set();
  const numbers = () => [...new Set(graph.channels.map((c) => c[0]))];
  const redraw = () => {
    layer.replaceChildren();
    svg.classList.toggle("ringed", shown.size > 0);
    svg.classList.toggle("crowded", shown.size > 6);
    const slots = [...shown].sort((a, b) => a - b);
    for (const channel of graph.channels) {
      const slot = slots.indexOf(channel[0]);
      if (slot < 0) continue;
      for (const [from, to] of hopsOf(graph, channel)) draw(page.pathNodes(from, to), channel[0], slot, slots.length, graph.shape === "ring");
      if (slots.length === 1) channel[3].forEach((g, i) => number(data.gpus[g].node, i + 1, channel[0]));
    }
    for (const chip of chips.children) {
      const on = chip.dataset.channel === "all" ? slots.length === numbers().length : chip.dataset.channel === "none" ? !slots.length
        : shown.has(+chip.dataset.channel);
      chip.setAttribute("aria-pressed", String(on));
    }
  };
  const emphasise = (channel) => {
    for (const path of layer.querySelectorAll(".ring")) path.classList.toggle("chosen-ring", channel !== null && path.classList.contains("c" + channel % COLOURS)
      && path.classList.contains("d" + Math.floor(channel / COLOURS) % 4));
  };

  make("label", "Channels of", picker).htmlFor = "algorithm";
  const algorithm = make("select", null, picker);
  algorithm.id = "algorithm";
  const nodes = make("select", null, picker);
  nodes.id = "nodes";
  nodes.setAttribute("aria-label", "Hosts of the communicator");
  const chips = make("div", null, picker, "chips");
  chips.setAttribute("role", "group");
  chips.setAttribute("aria-label", "Channels that are drawn");
  const option = (select, value, text) => { make("option", text, select).value = value; };
  for (const count of new Set(data.graphs.map((g) => g.nodes))) option(nodes, count, count === 1 ? "one host" : "two hosts");
  nodes.hidden = nodes.options.length < 2;
  const swatch = (channel, parent) => {
    const s = svgMake("svg", { class: "swatch " + styleOf(channel), width: 22, height: 8, "aria-hidden": "true" }, parent);
    svgMake("path", { class: styleOf(channel), d: "M0 4H22" }, s);
  };
  const chip = (value, text) => {
    const b = make("button", null, chips, value === "all" || value === "none" ? "" : styleOf(value));
    b.type = "button";
    b.dataset.channel = value;
    if (typeof value === "number") { swatch(value, b); b.setAttribute("aria-label", "Channel " + value); }
    make("span", text, b);
    b.addEventListener("click", () => {
      if (value === "none") shown = new Set();
      else if (value === "all") shown = new Set(numbers());
      else if (shown.has(value)) shown.delete(value);
      else shown.add(value);
      redraw();
    });
    if (typeof value !== "number") return;
    for (const on of ["mouseenter", "focus"]) b.addEventListener(on, () => emphasise(value));
    for (const off of ["mouseleave", "blur"]) b.addEventListener(off, () => emphasise(null));
  };
  chips.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = [...chips.children].indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    chips.children[(at + step + chips.children.length) % chips.children.length].focus();
  });

  const list = () => {
    part.replaceChildren();
    make("h2", graph.name + (graph.nodes === 1 ? ", one host" : ", two hosts"), part);
    make("p", graph.facts, part, "muted");
    const t = make("table", null, make("div", null, part, "scroll"));
    t.setAttribute("aria-label", "Channels of " + graph.name);
    const head = make("tr", null, make("thead", null, t));
    const network = graph.channels.some((c) => c[1] >= 0);
    for (const h of ["channel", ...(network ? ["NIC in", "NIC out"] : []), graph.shape === "head" ? "head" : "GPUs in order"]) make("th", h, head).scope = "col";
    const body = make("tbody", null, t);
    for (const channel of graph.channels) {
      const row = make("tr", null, body);
      const first = make("td", null, row);
      swatch(channel[0], first);
      make("span", channel[0], first);
      if (network) for (const n of [channel[1], channel[2]]) make("td", n < 0 ? "" : data.nets[n].name, row);
      make("td", orderText(graph, channel), row, "order");
      row.tabIndex = 0;
      const only = () => { shown = new Set([channel[0]]); redraw(); };
      row.addEventListener("click", only);
      row.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); only(); } });
    }
  };
  const choose = (found, channels) => {
    graph = found;
    nodes.value = String(graph.nodes);
    algorithm.replaceChildren();
    for (const g of data.graphs) if (g.nodes === graph.nodes) option(algorithm, g.key, g.name);
    algorithm.value = graph.key;
    chips.replaceChildren();
    chip("none", "none");
    chip("all", "all");
    for (const n of numbers()) chip(n, String(n));
    shown = new Set(channels === "all" ? numbers() : numbers().filter((n) => channels.includes(n)));
    redraw();
    list();
  };
  const find = (key, count) => data.graphs.find((g) => g.key === key && g.nodes === count) || data.graphs.find((g) => g.nodes === count);
  algorithm.addEventListener("change", () => choose(find(algorithm.value, graph.nodes), shown.size === numbers().length ? "all" : [...shown]));
  nodes.addEventListener("change", () => choose(find(graph.key, +nodes.value), shown.size === numbers().length ? "all" : [...shown]));
  picker.hidden = false;
  part.hidden = false;
  choose(graph, []);
  // #ring=0,1 or #tree=all&nodes=2 draws these channels.
  return {
    open: (hash) => {
      const found = /^#([a-z_]+)=(all|[\d,]+)(?:&nodes=(\d))?$/.exec(hash);
      const wanted = found && data.graphs.find((g) => g.key === found[1] && g.nodes === +(found[3] || 1));
      if (wanted) choose(wanted, found[2] === "all" ? "all" : found[2].split(",").map(Number));
    },
  };
};
