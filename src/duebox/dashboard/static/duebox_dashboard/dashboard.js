// What the dashboard does besides htmx: it draws charts, asks for nothing while nobody looks, and sends the tag of what
// it has, so that the server can answer 204.
"use strict";
(function () {
  const tags = new Map();
  const toggle = document.getElementById("live-toggle");
  let paused = false;

  document.addEventListener("htmx:beforeRequest", (event) => {
    const selection = document.getSelection();
    const selecting = selection && !selection.isCollapsed && event.target.contains(selection.anchorNode);
    if (document.hidden || paused || selecting) event.preventDefault();
  });

  document.addEventListener("htmx:configRequest", (event) => {
    const tag = tags.get(event.detail.path);
    if (tag) event.detail.headers["If-None-Match"] = tag;
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    const xhr = event.detail.xhr;
    const tag = xhr && xhr.getResponseHeader("ETag");
    if (tag) tags.set(event.detail.pathInfo.requestPath, tag);
    document.body.classList.toggle("is-stale", !event.detail.successful);
  });

  document.addEventListener("htmx:afterSwap", () => draw());

  if (toggle) {
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      paused = !paused;
      toggle.setAttribute("aria-pressed", String(!paused));
      toggle.querySelector("span").textContent = paused ? "Paused" : "Live";
    });
  }

  // Charts: an element with data-chart holds {x: [...], series: [{label, values, color, unit}], kind}.
  function style(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function format(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "s") return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;
    return value.toLocaleString("en", { maximumFractionDigits: 1 });
  }

  // Times in the zone of the project, as everywhere on the page.
  const clock = new Intl.DateTimeFormat("en-GB", {
    hour: "2-digit", minute: "2-digit", timeZone: document.body.dataset.zone || undefined,
  });
  const hour = (seconds) => (seconds === null || seconds === undefined ? "–" : clock.format(new Date(seconds * 1000)));

  function draw() {
    if (!window.uPlot) return;
    document.querySelectorAll("[data-chart]").forEach((place) => {
      if (place.dataset.drawn) return;
      place.dataset.drawn = "yes";
      const given = JSON.parse(place.dataset.chart);
      const axis = { stroke: style("--muted"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false } };
      const series = given.series.map((each) => ({
        label: each.label,
        stroke: style(each.color),
        fill: each.fill ? style(each.color) + "22" : undefined,
        width: 1.5,
        spanGaps: true,
        points: { show: false },
        value: (_, value) => format(value, given.unit),
      }));
      const options = {
        width: place.clientWidth,
        height: 180,
        legend: { live: true },
        cursor: { y: false },
        scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, given.unit === "s" ? 0.1 : 1) * 1.1] } },
        axes: [{ ...axis, values: (_, ticks) => ticks.map(hour) }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => format(tick, given.unit)) }],
        series: [{ label: "Time", value: (_, seconds) => hour(seconds) }, ...series],
      };
      new uPlot(options, [given.x, ...given.series.map((each) => each.values)], place);
    });
  }

  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    document.querySelectorAll("[data-chart]").forEach((place) => {
      place.replaceChildren();
      delete place.dataset.drawn;
    });
    draw();
  });

  // On a phone the navigation scrolls sideways: the current page must be in view.
  const current = document.querySelector(".bar nav [aria-current]");
  if (current) {
    const nav = current.closest("nav");
    const left = current.getBoundingClientRect().left - nav.getBoundingClientRect().left;
    nav.scrollLeft += left - (nav.clientWidth - current.offsetWidth) / 2;
  }

  draw();
})();
