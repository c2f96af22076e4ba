// Prompts of shell examples are shown, but not copied: generated content is no part of the text.
for (const prompt of document.querySelectorAll(".highlight .gp")) {
  prompt.dataset.prompt = prompt.textContent;
  prompt.textContent = "";
}
