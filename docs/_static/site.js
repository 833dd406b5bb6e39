// What a page offers if scripts run: a button that copies a block of code, a hint beside what is wider than the page, and a
// filter of the errors index.
"use strict";

// ---- copy

const icon =
  '<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M9 9V4h11v11h-5M4 9h11v11H4z" fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round"/></svg>';

// Of a session in a shell only the commands are copied, of a diff the new lines.
function copied(block, text) {
  if (block.closest(".highlight-console")) {
    return text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2)).join("\n");
  }
  if (block.closest(".highlight-diff")) {
    return text.split("\n").filter((line) => !line.startsWith("-")).map((line) => line.replace(/^[+ ]/, "")).join("\n");
  }
  return text.trimEnd();
}

function addCopyButton(block) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.title = "Copy";
  button.setAttribute("aria-label", "Copy this code");
  button.innerHTML = icon;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(copied(block, block.querySelector("pre").textContent));
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
  });
  block.append(button);
}

// ---- tables and code that are wider than the page

// Of a table a line says that it goes on, as its last columns could be missed; a cut line of code shows it by itself.
function followWidth(box) {
  const table = box.querySelector("table");
  const hint = document.createElement("p");
  hint.className = "sideways";
  hint.textContent = "More columns: scroll sideways →";
  if (table) box.before(hint);
  const update = () => {
    const hidden = box.scrollWidth - box.clientWidth;
    box.classList.toggle("more-left", hidden > 1 && box.scrollLeft > 1);
    box.classList.toggle("more-right", hidden > 1 && box.scrollLeft < hidden - 1);
    hint.hidden = hidden <= 1;
    if (hidden > 1) box.tabIndex = 0; // the keyboard scrolls it
    else box.removeAttribute("tabindex");
  };
  box.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(box);
  update();
}

// ---- the filter

function addFilter(place) {
  const box = document.createElement("input");
  box.type = "search";
  box.className = "filter";
  box.placeholder = "A part of your message, or an exception";
  box.setAttribute("aria-label", "Filter the messages");
  const count = document.createElement("p");
  count.className = "filter-count";
  count.setAttribute("role", "status");
  place.append(box, count);

  const article = place.closest("article");
  const entries = [...article.querySelectorAll("dt, section li")].map((entry) => {
    const parts = entry.tagName === "DT" ? [entry, entry.nextElementSibling] : [entry];
    const section = entry.closest("section").querySelector("h2")?.textContent ?? "";
    return { parts, section: entry.closest("section"), text: (section + " " + parts.map((part) => part.textContent).join(" ")).toLowerCase() };
  });
  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const sections = new Set();
    let shown = 0;
    for (const { parts, section, text } of entries) {
      const found = words.every((word) => text.includes(word));
      for (const part of parts) part.hidden = !found;
      if (found) {
        shown += 1;
        sections.add(section);
      }
    }
    for (const fold of article.querySelectorAll("details")) {
      fold.open = words.length > 0;
      fold.hidden = words.length > 0 && !fold.querySelector("li:not([hidden])");
    }
    for (const { section } of entries) section.hidden = !sections.has(section);
    count.textContent = words.length ? `${shown} of ${entries.length} messages` : "";
  };
  box.addEventListener("input", show);
}

// A link to a message in a folded list unfolds it.
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target?.closest("details");
  if (fold && !fold.open) {
    fold.open = true;
    target.scrollIntoView();
  }
}

window.addEventListener("hashchange", unfold);
document.addEventListener("DOMContentLoaded", () => {
  unfold();
  for (const block of document.querySelectorAll("div.highlight")) {
    if (!block.closest(".highlight-text")) addCopyButton(block);
  }
  for (const box of document.querySelectorAll(".table-wrapper, div.highlight > pre")) followWidth(box);
  const place = document.getElementById("filter");
  if (place) addFilter(place);
});
