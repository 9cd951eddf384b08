// The seconds in which an answer can be taken back, counted by this machine's clock from what the server said.

const TICK = 250;

/** Count the undo buttons within `root` down; each goes when its time is over. */
export function countDown(root) {
  for (const button of root.querySelectorAll("[data-undo][data-seconds]")) {
    const end = performance.now() + 1000 * Number(button.dataset.seconds);
    const timer = setInterval(() => {
      const left = Math.ceil((end - performance.now()) / 1000);
      if (left > 0 && button.isConnected) {
        button.querySelector(".left").textContent = left;
        return;
      }
      clearInterval(timer);
      button.form.hidden = true;
    }, TICK);
  }
}
