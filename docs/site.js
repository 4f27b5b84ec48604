// The theme puts a landmark without a name into every block of code: those who do not see it hear which one it is.
new MutationObserver(() => {
  document.querySelectorAll("nav.md-code__nav").forEach((nav, place) => {
    if (!nav.ariaLabel) nav.ariaLabel = `Code block ${place + 1}`;
  });
}).observe(document.documentElement, { childList: true, subtree: true });
