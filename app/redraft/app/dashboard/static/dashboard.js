// Keeps the page's fragment as the server has it now, while the page is looked at, and says when it cannot.
"use strict";
(() => {
  let source = null;
  let target = null;
  const erased = document.querySelector("[data-erased]") !== null;

  const state = (name) => { document.documentElement.dataset.line = name; };

  const close = () => { if (source) { source.close(); source = null; } };

  const open = () => {
    target = document.querySelector("[data-live]");
    if (!target || !target.dataset.live || source || document.hidden) return;
    source = new EventSource(target.dataset.live);
    source.addEventListener("open", () => state("live"));
    source.addEventListener("release", (event) => {
      if (event.data === document.querySelector("meta[name=redraft-release]").content) return;
      close();
      state("outdated");
    });
    source.addEventListener("trouble", (event) => {
      document.querySelector(".line.trouble span").textContent = event.data;
      state("trouble");
    });
    source.addEventListener("fragment", (event) => {
      state("live");
      htmx.swap({ sourceElement: target, target, text: event.data, swap: "innerMorph" });
      if (!erased && target.querySelector("[data-erased]")) location.reload();  // what else it shows is erased as well
    });
    source.addEventListener("error", () => state(source.readyState === EventSource.CLOSED ? "closed" : "offline"));
  };

  // A page that shows another version or draft has another fragment to follow, or none.
  const follow = () => {
    const now = document.querySelector("[data-live]");
    if (source && (!now || new URL(now.dataset.live, location.href).href !== source.url)) close();
    open();
  };

  // What is pressed while nobody answers: the page says so, until something else is.
  const unanswered = ({ detail: { ctx } }) => {
    if (!ctx || ctx.response) return;
    const told = document.createElement("p");
    told.className = "told bad unanswered";
    told.textContent = ctx.request.method === "GET" ? "The server did not answer. Try it again in a while."
      : "The server did not answer, so nobody knows here whether it was done: look before you do it again.";
    document.getElementById("said").replaceChildren(told);
  };

  document.addEventListener("htmx:error", unanswered);
  document.addEventListener("htmx:before:request", () => document.querySelector(".unanswered")?.remove());
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
