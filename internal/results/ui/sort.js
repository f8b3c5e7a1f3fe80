// Tables of the class "sortable" are sorted by a click on the head of a column. Without scripts they stay in the order of the server.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.className = "sort";
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
      const numeric = head.classList.contains("num");
      const compare = (a, b) => (numeric ? Number(a.key) - Number(b.key) : a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
      const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: key(row) }));
      rows.sort((a, b) => (down ? compare(b, a) : compare(a, b)));
      table.tBodies[0].append(...rows.map((r) => r.row));
      heads.forEach((h) => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}
// A report that a server shows in a sandbox has no origin, and its requests carry no session: there, links to files of the crawl would lead to an error.
if (location.protocol !== "file:" && self.origin === "null") {
  for (const link of document.querySelectorAll("a.file")) link.replaceWith(...link.childNodes);
}
