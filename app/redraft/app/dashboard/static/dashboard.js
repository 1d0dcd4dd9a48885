// Keeps the page's fragment as the server has it now, while the page is looked at, and says when it cannot.
"use strict";
(() => {
  let source = null;
  let target = null;

  const state = (name) => { document.documentElement.dataset.line = name; };

  const close = () => { if (source) { source.close(); source = null; } };

  const open = () => {
    target = document.querySelector("[data-live]");
    if (!target || !target.dataset.live || source || document.hidden) return;
    source = new EventSource(target.dataset.live);
    source.addEventListener("open", () => state("live"));
    source.addEventListener("trouble", (event) => {
      document.querySelector(".line.trouble span").textContent = event.data;
      state("trouble");
    });
    source.addEventListener("fragment", (event) => {
      state("live");
      htmx.swap({ sourceElement: target, target, text: event.data, swap: "innerMorph" });
    });
    source.addEventListener("error", () => state(source.readyState === EventSource.CLOSED ? "closed" : "offline"));
  };

  // A page that shows another version or draft has another fragment to follow, or none.
  const follow = () => {
    const now = document.querySelector("[data-live]");
    if (source && (!now || new URL(now.dataset.live, location.href).href !== source.url)) close();
    open();
  };

  document.addEventListener("htmx:after:swap", follow);
  document.addEventListener("input", (event) => {
    const told = event.target.closest(".slider")?.querySelector("output");
    if (told) told.textContent = event.target.value;
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    navigator.clipboard.writeText(button.dataset.copy).then(() => {
      button.dataset.copied = "";
      setTimeout(() => delete button.dataset.copied, 1500);
    });
  });
})();
