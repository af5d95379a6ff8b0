"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const svg = document.querySelector("svg.rw");
  const panel = document.getElementById("panel");
  const way = document.getElementById("way");
  const hint = way.textContent;
  const boxes = new Map();
  const wires = new Map();
  const push = (map, key, value) => { if (map.has(key)) map.get(key).push(value); else map.set(key, [value]); };
  const pair = (a, b) => Math.min(a, b) + "-" + Math.max(a, b);
  for (const box of svg.querySelectorAll(".box[data-n]")) for (const n of box.dataset.n.split(" ")) push(boxes, +n, box);
  for (const wire of svg.querySelectorAll(".wire[data-a]")) push(wires, pair(+wire.dataset.a, +wire.dataset.b), wire);
  let picked = null;

  // The path between two things, GPU or NIC, by their numbers: [type, GB/s, hops, via]. NICs among themselves: none.
  const pathOf = (from, to) => {
    if (from.kind === "gpu" && to.kind === "gpu") return from.i === to.i ? null : data.gpu_gpu[from.i][to.i];
    if (from.kind === "gpu" && to.kind === "net") return data.gpu_net[from.i][to.i];
    if (from.kind === "net" && to.kind === "gpu") return data.net_gpu[from.i][to.i];
    return null;
  };
  const thing = (it) => it.kind === "gpu" ? data.gpus[it.i] : data.nets[it.i];
  const nodesOf = (from, to) => {
    const path = pathOf(from, to);
    if (!path || path[0] === "DIS" || !path[3]) return [thing(from).node, thing(to).node];
    return [thing(from).node, ...path[3], thing(to).node];
  };
  const wayText = (from, to) => {
    const path = pathOf(from, to);
    if (!path) return "";
    if (path[0] === "DIS") return thing(from).name + " and " + thing(to).name + " are not connected";
    const names = [];
    for (const n of nodesOf(from, to)) if (names[names.length - 1] !== data.names[n]) names.push(data.names[n]);
    return path[0] + ", " + path[1] + " GB/s: " + names.join(" \u2192 ");
  };

  const clear = () => { for (const e of svg.querySelectorAll(".on")) e.classList.remove("on"); };
  // Between a CPU and a GPU there may be PCIe and a faster link: NCCL takes the faster.
  const light = (nodes) => {
    nodes.forEach((n, i) => {
      for (const box of boxes.get(n) || []) box.classList.add("on");
      const between = i > 0 ? wires.get(pair(nodes[i - 1], n)) || [] : [];
      const fast = between.filter((wire) => !wire.classList.contains("pci"));
      for (const wire of fast.length ? fast : between) wire.classList.add("on");
    });
  };
  // What is lit when nothing is hovered: the ways to the chosen NICs, or from a NIC to the GPUs that chose it.
  const rest = () => {
    clear();
    svg.classList.toggle("picking", picked !== null);
    way.textContent = hint;
    if (!picked) return;
    light([thing(picked).node]);
    if (picked.kind === "gpu") {
      for (const nic of thing(picked).chosen) light(nodesOf(picked, { kind: "net", i: nic.net }));
      const first = thing(picked).chosen[0];
      if (first) way.textContent = wayText(picked, { kind: "net", i: first.net });
    } else {
      for (const g of thing(picked).users) light(nodesOf({ kind: "gpu", i: g }, picked));
    }
  };
  const show = (from, to) => {
    clear();
    svg.classList.add("picking");
    light(nodesOf(from, to));
    way.textContent = wayText(from, to);
  };

  const make = (tag, text, parent, style) => {
    const e = document.createElement(tag);
    if (text !== null && text !== undefined) e.textContent = text;
    if (style) e.className = style;
    if (parent) parent.append(e);
    return e;
  };
  // rows: [cells, from, to, chosen]; a row with from and to lights that path.
  const table = (parent, title, heads, rows, numeric) => {
    const part = make("section", null, parent);
    make("h2", title, part);
    const t = make("table", null, make("div", null, part, "scroll"));
    t.setAttribute("aria-label", title);
    const head = make("tr", null, make("thead", null, t));
    heads.forEach((h, i) => { make("th", h, head, numeric.includes(i) ? "n" : "").scope = "col"; });
    const body = make("tbody", null, t);
    for (const [cells, from, to, chosen] of rows) {
      const row = make("tr", null, body, chosen ? "chosen" : "");
      cells.forEach((c, i) => make("td", c, row, numeric.includes(i) ? "n" : ""));
      if (!from) continue;
      row.tabIndex = 0;
      for (const on of ["mouseenter", "focus"]) row.addEventListener(on, () => show(from, to));
      for (const off of ["mouseleave", "blur"]) row.addEventListener(off, rest);
    }
    return part;
  };
  const cells = (name, path, more) => [name, path[0], path[0] === "DIS" ? "" : path[1], path[0] === "DIS" ? "" : path[2], ...more];
  const problems = (parent, list) => {
    for (const [text, fix] of list) {
      const div = make("div", null, parent, "problem");
      make("div", text, div);
      if (fix) make("div", "What to do: " + fix, div, "fix");
    }
  };

  // [peer, class, ...]: P2P through a third GPU adds its rank; NET adds sending NIC, sending rank and receiving NIC.
  const transportText = (row, gpu) => {
    if (!row) return "";
    const [, kind, ...more] = row;
    const name = data.transports.classes[kind][0];
    if (more.length === 1) return name + ", GPU " + more[0];
    if (more.length < 3) return name;
    const relay = "GPU " + more[1];
    return name + ", " + data.nets[more[0]].name + " \u2192 " + data.nets[more[2]].name + (relay === gpu.name ? "" : " through " + relay + " (PXN)");
  };

  const gpuPanel = (it) => {
    const gpu = thing(it);
    make("h2", gpu.name + " (" + gpu.facts + ")", panel);
    for (const detail of gpu.details) make("p", detail, panel);
    problems(panel, gpu.problems);
    const rows = gpu.chosen.map((nic) => {
      const to = { kind: "net", i: nic.net };
      const path = pathOf(it, to);
      return [[nic.channels, thing(to).name, path[0] + ", " + path[1] + " GB/s", nic.receive, nic.send, nic.flush], it, to, true];
    });
    table(panel, "Its NIC, channel by channel", ["channel", "NIC", "path", "GPUDirect receive", "GPUDirect send", "flush"], rows, []);
    if (gpu.remote.length) make("p", "Towards another host like this: " + gpu.remote.join("; "), panel);
    const columns = make("div", null, panel, "columns");
    const heads = ["path", "GB/s", "hops"];
    table(columns, "To every NIC", ["NIC", ...heads, "why it is not chosen"], data.nets.map((net, j) => {
      const to = { kind: "net", i: j };
      const why = gpu.rejected[j];
      return [cells(net.name, pathOf(it, to), [why === undefined ? "chosen" : why]), it, to, why === undefined];
    }), [2, 3]);
    const here = new Map(data.transports.here[it.i].map((row) => [row[0], row]));
    const remote = new Map(data.transports.other_host[it.i].map((row) => [row[0], row]));
    table(columns, "To every GPU", ["GPU", ...heads, "transport", "on another host like this"], data.gpus.map((other, j) => {
      const to = { kind: "gpu", i: j };
      const path = j === it.i ? ["", "", ""] : pathOf(it, to);
      const more = [j === it.i ? "" : transportText(here.get(j), gpu), transportText(remote.get(j), gpu)];
      return [cells(other.name, path, more), j === it.i ? null : it, to, false];
    }), [2, 3]);
    const used = new Set([...here.values(), ...remote.values()].map((row) => row[1]));
    const reasons = make("dl", null, panel, "types");
    for (const i of used) {
      make("dt", data.transports.classes[i][0], reasons);
      make("dd", data.transports.classes[i][1], reasons);
    }
  };
  const netPanel = (it) => {
    const net = thing(it);
    make("h2", net.name + " (" + net.facts + ")", panel);
    make("p", net.users.length ? "The NIC of " + net.users.map((g) => data.gpus[g].name).join(", ") + "." : "No GPU's NIC.", panel);
    const columns = make("div", null, panel, "columns");
    const heads = ["GPU", "path", "GB/s", "hops"];
    table(columns, "From every GPU (sending)", [...heads, "why it is not chosen"], data.gpus.map((gpu, j) => {
      const from = { kind: "gpu", i: j };
      const why = gpu.rejected[it.i];
      return [cells(gpu.name, pathOf(from, it), [why === undefined ? "chosen" : why]), from, it, why === undefined];
    }), [2, 3]);
    table(columns, "To every GPU (receiving)", heads, data.gpus.map((gpu, j) => {
      const to = { kind: "gpu", i: j };
      return [cells(gpu.name, pathOf(it, to), []), it, to, net.users.includes(j)];
    }), [2, 3]);
  };

  const pick = (it) => {
    for (const e of svg.querySelectorAll(".picked")) { e.classList.remove("picked"); e.setAttribute("aria-pressed", "false"); }
    picked = it && picked && it.kind === picked.kind && it.i === picked.i ? null : it;
    panel.replaceChildren();
    panel.hidden = picked === null;
    if (picked) {
      for (const box of boxes.get(thing(picked).node) || []) {
        if (!box.hasAttribute("tabindex")) continue;
        box.classList.add("picked");
        box.setAttribute("aria-pressed", "true");
      }
      if (picked.kind === "gpu") gpuPanel(picked); else netPanel(picked);
    }
    rest();
  };

  const itOf = (box) => box.dataset.gpu !== undefined ? { kind: "gpu", i: +box.dataset.gpu } : { kind: "net", i: +box.dataset.net };
  const choices = [...svg.querySelectorAll(".box[tabindex]")];
  choices.forEach((box, at) => {
    const it = itOf(box);
    box.addEventListener("click", () => pick(it));
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(it); }
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); choices[(at + step + choices.length) % choices.length].focus(); }
    });
    // Over another thing: the way between the two. Over anything while nothing is picked: what it would show.
    const over = () => {
      if (picked && pathOf(picked, it)) return show(picked, it);
      if (picked) return;
      picked = it; rest(); picked = null;
    };
    for (const on of ["mouseenter", "focus"]) box.addEventListener(on, over);
    for (const off of ["mouseleave", "blur"]) box.addEventListener(off, rest);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") pick(null); });
  for (const row of document.querySelectorAll("tr[data-rank]")) {
    const go = () => open(document.getElementById("gpu-" + row.dataset.rank));
    row.addEventListener("click", (event) => { if (!event.target.closest("a")) go(); });
    row.addEventListener("keydown", (event) => { if (event.target === row && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); go(); } });
  }
  // The field finds a GPU or NIC by its name or its facts (bus id), and hides the rows of tables that lack the text.
  const find = document.getElementById("find");
  find.hidden = false;
  const things = [...data.gpus.map((gpu, i) => ["gpu", i, gpu]), ...data.nets.map((net, i) => ["net", i, net])];
  const has = (text) => text.toLowerCase().includes(find.value.trim().toLowerCase());
  const filter = () => {
    for (const row of document.querySelectorAll("tbody tr")) row.hidden = !has(row.textContent);
  };
  find.addEventListener("input", filter);
  find.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { find.value = ""; filter(); }
    if (event.key !== "Enter" || find.value.trim() === "") return;
    const exact = things.find(([, , it]) => it.name.toLowerCase() === find.value.trim().toLowerCase());
    const found = exact || things.find(([, , it]) => has(it.name + " " + it.facts));
    if (!found) { way.textContent = "No GPU and no NIC has \u201c" + find.value + "\u201d in its name or its facts."; return; }
    const box = choices.find((one) => { const it = itOf(one); return it.kind === found[0] && it.i === found[1]; });
    find.value = "";
    filter();
    if (box) open(box);
  });

  const fit = document.getElementById("fit");
  const drawing = document.getElementById("drawing");
  fit.hidden = false;
  fit.addEventListener("click", () => {
    const on = drawing.classList.toggle("fit");
    fit.textContent = on ? "Full size" : "Fit the window";
    fit.setAttribute("aria-pressed", String(on));
  });

  const channels = drawChannels({ data, svg, boxes, wires, pair, pathNodes: nodesOf, make });

  // #gpu=RANK or #nic=NUMBER opens that panel; #ring=0 and the like draw channels.
  const open = (box) => {
    pick(null);
    box.dispatchEvent(new MouseEvent("click"));
    box.scrollIntoView({ block: "nearest", inline: "center" });
  };
  const fromAddress = () => {
    const found = /^#(gpu|nic)=(\d+)$/.exec(location.hash);
    const box = found && document.getElementById(found[1] + "-" + found[2]);
    if (box) open(box); else channels.open(location.hash);
  };
  addEventListener("hashchange", fromAddress);
  fromAddress();
  document.documentElement.dataset.ready = "yes";
})();
