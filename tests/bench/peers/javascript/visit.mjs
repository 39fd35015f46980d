// A function of a benchmark: it looks at each document, as feed.mjs does.
export default function handle(changes) {
  let visited = 0;
  for (const change of changes) visited += change.document.id !== "";
}
