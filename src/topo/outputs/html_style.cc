#include "topo/outputs/html_parts.h"

namespace railwise::topo {

std::string_view htmlStyle() {
  return R"css(
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", Arial, sans-serif; }
header { padding: 14px 20px 6px; }
h1 { font-size: 20px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 18px 0 6px; }
h2:first-child { margin-top: 0; }
p { margin: 4px 0; }
.muted { color: var(--muted); }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 16px; padding: 8px 20px 24px; }
.drawing { overflow: auto; border: 1px solid var(--frame); border-radius: 10px; padding: 8px; max-height: 82vh; }
.drawing svg { display: block; margin: 0 auto; }
.drawing.fit svg { max-width: 100%; height: auto; }
.bar { display: flex; flex-wrap: wrap; gap: 12px; align-items: center; min-height: 32px; }
#way { flex: 1 1 300px; }
button { font: inherit; color: var(--ink); background: var(--pci); border: 1px solid var(--pci-line); border-radius: 6px; padding: 3px 12px; cursor: pointer; }
button:focus-visible, tr:focus-visible, a:focus-visible { outline: 2px solid var(--pick); outline-offset: 1px; }
.panel { border: 1px solid var(--frame); border-radius: 10px; padding: 14px 18px; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 4px 28px; }
.scroll { overflow: auto; max-height: 420px; }
table { border-collapse: collapse; min-width: min(100%, 420px); font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--muted); position: sticky; top: 0; background: var(--bg); }
th, td { padding: 3px 22px 3px 0; border-bottom: 1px solid var(--frame); vertical-align: top; }
th.n, td.n { text-align: right; }
tbody tr[tabindex]:hover, tbody tr[tabindex]:focus { background: var(--numa); cursor: pointer; }
tr.chosen td:first-child { font-weight: 700; color: var(--pick); }
.problem { border-left: 4px solid var(--bad); background: var(--bad-fill); padding: 6px 12px; margin: 6px 0; border-radius: 0 6px 6px 0; }
.problem .fix { color: var(--muted); }
dl.types { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 0; }
dl.types dt { font-weight: 600; }
dl.types dd { margin: 0; color: var(--muted); }
.rw .box[tabindex] { cursor: pointer; outline: none; }
.rw .box[tabindex]:hover rect, .rw .box[tabindex]:focus rect { stroke: var(--pick); stroke-width: 2.5; }
.rw.picking .wire:not(.on), .rw.picking .box:not(.on) { opacity: .35; }
.rw .wire.on { stroke: var(--pick); stroke-dasharray: none; }
.rw .box.on rect { stroke: var(--pick); stroke-width: 2.5; }
.rw .box.picked rect { stroke: var(--pick); stroke-width: 4; }
@media print { .drawing { max-height: none; overflow: visible; } button { display: none; } }
)css";
}

}  // namespace railwise::topo
