// Runs in the search's worker. Zensical finds only pages with every word of a question. This leaves
// out words such as "my" and Korean particles, and finds pages with some of the others, too.
const FILLERS = new Set(("a about all an and any are as at be by can do does for from get give go has have how i in " +
  "into is it its me my of on or our over should that the then there this to up use want was what when where " +
  "which why will with you your 내 제 좀 왜 안 수 잘 어떻게 해요 하나요 되나요 돼요 안돼요 있나요 하고 하는 하려면 싶어요 방법 방법은").split(" "));
// Words that users write, and the words of the pages for them.
const SAME = { vscode: "VS Code", anaconda: "conda", 아나콘다: "conda", 콘다: "conda", 텐서보드: "TensorBoard", 파이토치: "PyTorch" };
const PARTICLE = /(에서|에게|으로|하기|하고|하려면|하는|했는데|까지|부터|해요|이나|을|를|이|가|은|는|에|로|의|도|와|과|요|만)$/;

function wordsOf(question) {
  const all = question.trim().split(/[\s,?!]+/).filter((word) => word);
  const meant = all.filter((word) => !FILLERS.has(word.toLowerCase()));
  return (meant.length ? meant : all).map((word) => {
    const stem = /^[가-힣]{3,}$/.test(word) ? word.replace(PARTICLE, "") : word;
    return SAME[stem.toLowerCase()] || stem;
  });
}

// Return all ways to keep `count` of the words, in their order.
function* choices(words, count) {
  if (count === 0) { yield []; return; }
  for (let at = 0; at <= words.length - count; at++) {
    for (const rest of choices(words.slice(at + 1), count - 1)) yield [words[at], ...rest];
  }
}

// Pages with all words come first, then pages with all but one, and so on. Among choices with equally
// many words, the rarest words come first, because they say most about the question.
function answer(search, data) {
  const find = (input) => search({ type: "text", data: { ...structuredClone(data), input } }).data; // which changes it
  if (typeof data.input !== "string") return { data: find(data.input) };
  const words = wordsOf(data.input).slice(0, 7);
  const first = find(words.join(" "));
  const items = new Map(first.items.map((item) => [item.id, item]));
  for (let count = words.length - 1; count > 0 && items.size < 6; count--) {
    const results = [...choices(words, count)].map((chosen) => find(chosen.join(" ")));
    results.sort((one, other) => one.pagination.total - other.pagination.total);
    for (const item of results.flatMap((result) => result.items)) {
      if (items.size < 10 && !items.has(item.id)) items.set(item.id, item);
    }
  }
  if (items.size === first.items.length) return { data: first };
  return { data: { ...first, items: [...items.values()], pagination: { total: items.size } } };
}
