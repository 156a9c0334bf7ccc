// The theme puts tables into boxes that scroll sideways; this lets the keyboard reach the boxes.
addEventListener("load", () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) box.tabIndex = 0;
});
