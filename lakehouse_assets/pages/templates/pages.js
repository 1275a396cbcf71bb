"use strict";
// Draws the figures of a page with Plotly, in the colours of the page's scheme; each when it comes into view.
(() => {
  const root = document.documentElement;
  const colour = name => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const base = document.currentScript.src.replace(/assets\/pages\.js.*$/, "");
  const drawn = new Set();

  function trace(each, index) {
    const palette = ["#3b82f6", "#f59e0b", "#a855f7", "#14b8a6", "#ec4899", "#84cc16", "#64748b", "#ef4444"];
    const out = {...each};
    const own = each.role === "mark" ? colour("ink") : each.role && each.role !== "band" ? colour(each.role) : palette[index % palette.length];
    if (each.type === "bar") out.marker = {color: own};
    else if (each.role === "band") { out.line = {color: colour("soft"), width: .5}; out.fillcolor = colour("band"); }
    else if (each.states) { out.marker = {color: each.states.map(colour), size: 6}; if (each.error_y) out.error_y = {...each.error_y, color: colour("soft"), thickness: 1, width: 0}; }
    else if (each.role === "mark") out.marker = {color: own, symbol: "triangle-up", size: 10};
    else { out.line = {color: own, width: 1.5}; out.marker = {color: own, size: 4}; }
    if (each.hidden_in_legend) out.showlegend = false;
    return out;
  }

  function layout(given, traces) {
    const axis = {gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"), automargin: true};
    const shapes = (given.levels || []).map(([name, at]) => ({type: "line", xref: "paper", x0: 0, x1: 1, y0: at, y1: at, line: {color: colour(name === "hold_at" ? "quarantined" : "warned"), width: 1.5, dash: "dot"}}));
    const notes = (given.levels || []).map(([name, at]) => ({xref: "paper", x: 1, xanchor: "right", y: given.y_log ? Math.log10(at) : at, yanchor: "bottom", text: name + " " + at, showarrow: false, font: {size: 11, color: colour("soft")}}));
    return {
      barmode: given.barmode, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", bargap: .15, shapes, annotations: notes,
      font: {family: "system-ui, sans-serif", size: 12, color: colour("ink")}, margin: {l: 50, r: 12, t: 8, b: 36}, hovermode: "closest",
      hoverlabel: {bgcolor: colour("panel"), bordercolor: colour("line"), font: {color: colour("ink")}},
      showlegend: !given.small && (traces.length > 1), legend: {orientation: "h", y: 1.02, yanchor: "bottom", x: 0},
      xaxis: {...axis}, yaxis: {...axis, title: {text: given.y_title, font: {size: 11}}, type: given.y_log ? "log" : "linear", tickformat: given.y_format || (given.y_log ? "~g" : undefined), rangemode: given.y_format || given.barmode ? "tozero" : "normal"},
    };
  }

  function draw(place) {
    const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
    Plotly.react(place, figure.data.map(trace), layout(figure.layout, figure.data), {responsive: true, displayModeBar: false}).then(() => {
      if (drawn.has(place)) return;
      drawn.add(place);
      place.dataset.drawn = "yes";
      place.on("plotly_click", event => {
        const path = event.points[0].customdata;
        if (typeof path === "string") location.href = base + path;
      });
    });
  }

  const places = [...document.querySelectorAll(".plot")];
  const observer = new IntersectionObserver(entries => entries.filter(e => e.isIntersecting).forEach(e => { observer.unobserve(e.target); draw(e.target); }), {rootMargin: "300px"});
  places.forEach(place => observer.observe(place));
  const again = () => drawn.forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  matchMedia("print").addEventListener("change", again);
  addEventListener("beforeprint", () => places.forEach(draw));
})();
