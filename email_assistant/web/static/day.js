// What is fetched beside the page, as it comes from Google, which may be slow, or not there: the day, and the mail as it
// was sent.

const PATIENCE = 10_000;

/** Fill the page's places that are still empty. */
export function watchDay() {
  for (const place of document.querySelectorAll("[data-load]:not([aria-busy])")) fill(place);
}

async function fill(place) {
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(place.dataset.load, { signal: AbortSignal.timeout(PATIENCE) });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(place.id);
    if (found) place.replaceWith(document.adoptNode(found));
  } catch {
    // The link stays.
  } finally {
    place.removeAttribute("aria-busy");
  }
}
