// The person's day, fetched beside the page: the calendar may be slow, or not there.

const PATIENCE = 10_000;

/** Fill the page's place for the day, if it is still empty. */
export async function watchDay() {
  const place = document.querySelector("[data-load]");
  if (!place) return;
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(place.dataset.load, { signal: AbortSignal.timeout(PATIENCE) });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(place.id);
    if (found) place.replaceWith(document.adoptNode(found));
  } catch {
    // The link to the day stays.
  } finally {
    place.removeAttribute("aria-busy");
  }
}
