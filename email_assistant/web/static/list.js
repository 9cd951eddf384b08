// The list's ticks: counted, set all at once, kept when the list is fetched anew.

const boxes = () => [...document.querySelectorAll('#list input[name="item"]')];

function showTicked() {
  const place = document.getElementById("ticked");
  if (!place) return;
  const ticked = boxes().filter((box) => box.checked).length;
  place.textContent = ticked ? `${ticked} ticked` : "";
  place.closest(".bulk").hidden = !ticked;
  const all = document.getElementById("tick-all");
  if (all) all.textContent = ticked && ticked === boxes().length ? "Untick all" : "Tick all";
}

/** Nothing is ticked out of sight. */
function unfold() {
  const notices = document.getElementById("know");
  if (notices) notices.open = true;
}

/** What has to be put back after the list was replaced. */
export function keepTicks() {
  const ticked = new Set(boxes().filter((box) => box.checked).map((box) => box.value));
  const isOpen = document.getElementById("know")?.open;
  return () => {
    if (isOpen) unfold();
    for (const box of boxes()) box.checked = ticked.has(box.value);
    showTicked();
  };
}

export function watchList() {
  const form = document.getElementById("list");
  if (!form) return;
  form.addEventListener("change", showTicked);
  form.addEventListener("click", (event) => {
    if (event.target.id !== "tick-all") return;
    event.preventDefault();
    const tick = boxes().some((box) => !box.checked);
    for (const box of boxes()) box.checked = tick;
    if (tick) unfold();
    showTicked();
  });
  showTicked();
}
