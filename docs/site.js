// The theme puts a landmark without a name into every block of code: those who do not see it hear which one it is.
new MutationObserver(() => {
  document.querySelectorAll("nav.md-code__nav").forEach((nav, place) => {
    if (!nav.ariaLabel) nav.ariaLabel = `Code block ${place + 1}`;
  });
}).observe(document.documentElement, { childList: true, subtree: true });

// The theme searches for every word as the beginning of one, so "a" in "expire a memory" would find every page. Words that
// say nothing are left out of what its worker is asked, unless there are no others.
const SAY_NOTHING = new Set(
  ("a about all an and any are as at be by can do does for from get has have how i if in into is it its me my no not of on one or " +
    "our so than that the their them then there they this to us use used want was we what when where which who why will with you your")
    .split(" "),
);
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === 2 && typeof message.data === "string") {
    const words = message.data.split(/\s+/).filter((word) => !SAY_NOTHING.has(word.toLowerCase().replace(/[^\w]+$/, "")));
    if (words.length) message = { ...message, data: words.join(" ") };
  }
  return post.call(this, message, ...rest);
};
