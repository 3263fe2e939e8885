// The page lives in a frame of Airflow's UI, of the same origin.
"use strict";

// Airflow marks its theme on its own document; follow it, also when it changes.
function followTheme() {
  let outside;
  try {
    if (window.parent === window) return;
    outside = window.parent.document.documentElement;
  } catch {
    return; // framed by somebody else: the reader's own preference counts
  }
  const here = document.documentElement;
  const apply = () => {
    const dark = outside.classList.contains("dark");
    if (dark || outside.classList.contains("light")) here.dataset.theme = dark ? "dark" : "light";
    for (let around = window.frameElement; around; around = around.parentElement) {
      const ground = getComputedStyle(around).backgroundColor;
      if (ground === "rgba(0, 0, 0, 0)") continue;
      here.style.setProperty("--ground", ground);
      break;
    }
  };
  apply();
  new MutationObserver(apply).observe(outside, { attributes: true, attributeFilter: ["class"] });
}
followTheme();

// The frame may not navigate its parent or open tabs; a link of the parent's document may.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-go]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  let outside;
  try {
    outside = window.parent.document;
  } catch {
    return;
  }
  event.preventDefault();
  const twin = outside.createElement("a");
  twin.href = link.href;
  if (link.dataset.go === "new") {
    twin.target = "_blank";
    twin.rel = "noopener";
  }
  twin.click();
});
