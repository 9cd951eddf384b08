// The seconds in which an answer can be taken back, counted by this machine's clock from what the server said.

const TICK = 250;
/** The answers that can be taken back, latest last, for pages that don't show them. */
const ANSWERED = "undo";

/** Count the undo buttons within `root` down; each goes when its time is over. */
export function countDown(root) {
  for (const button of root.querySelectorAll("[data-undo][data-seconds]")) {
    const until = performance.now() + 1000 * Number(button.dataset.seconds);
    const timer = setInterval(() => {
      const left = Math.ceil((until - performance.now()) / 1000);
      if (left > 0 && button.isConnected) {
        button.querySelector(".left").textContent = left;
        return;
      }
      clearInterval(timer);
      end(button);
    }, TICK);
  }
  remember([...root.querySelectorAll("#results [data-undo][data-seconds]")].at(-1));
}

/** What can't be taken back any more is no news; what was not taken stays. */
function end(button) {
  const results = button.closest("#results");
  button.form.hidden = true;
  button.closest("#results li:not(.bad)")?.remove();
  if (results && !results.querySelector("li")) results.remove();
}

/** The last button takes back all that was answered at once. */
function remember(button) {
  if (!button) return;
  const action = button.form.getAttribute("action");
  const items = [...button.form.querySelectorAll('input[name="item"]')].map((field) => field.value);
  const until = Date.now() + 1000 * Number(button.dataset.seconds);
  const isOther = (each) => each.action !== action || String(each.items) !== String(items);
  keep([...kept().filter(isOther), { action, items, until }]);
  button.form.addEventListener("submit", () => keep(kept().filter(isOther)));
}

function kept() {
  return JSON.parse(sessionStorage.getItem(ANSWERED) ?? "[]").filter((each) => each.until > Date.now());
}

function keep(answers) {
  sessionStorage.setItem(ANSWERED, JSON.stringify(answers));
}

/** Take back the latest of what earlier pages could, while its seconds run. */
export function undoEarlier() {
  const answers = kept();
  const latest = answers.pop();
  keep(answers);
  if (!latest) return false;
  const form = document.createElement("form");
  Object.assign(form, { className: "undo", method: "post", action: latest.action, hidden: true });
  for (const value of latest.items) {
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "item", value }));
  }
  document.body.append(form);
  form.requestSubmit();
  return true;
}
