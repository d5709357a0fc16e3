import assert from "node:assert/strict";
import { cleanText } from "../../../../src/media/text_normalization/normalize.ts";
import { halve, splitSegments } from "../../../../src/media/text_normalization/segments.ts";

function splitTexts(text: string, maxChars = 300): string[] {
  return [...splitSegments(text, { language: "en", maxChars })].map((piece) => piece.text);
}

Deno.test("splitSegments() ends chunks at sentence ends, and not at abbreviations", () => {
  assert.deepEqual(
    splitTexts(
      'Dr. J. R. Smith left the U.S. yesterday. He said "Hi." Then (see fig. 3) he paid $5.50! ' +
        "Version 2.5.1 is out, e.g. Here. What?! Yes",
    ),
    [
      "Dr. J. R. Smith left the U.S. yesterday.",
      'He said "Hi."',
      "Then (see fig. 3) he paid $5.50!",
      "Version 2.5.1 is out, e.g. Here.",
      "What?!",
      "Yes",
    ],
  );
  assert.deepEqual(splitTexts("Hello\u3002\u4f60\u597d\uff01\u597d\u7684"), [
    "Hello\u3002",
    "\u4f60\u597d\uff01",
    "\u597d\u7684",
  ]);
});

Deno.test("splitSegments() distinguishes abbreviations within a sentence from those at its end", () => {
  const english = [
    "The U.S. GDP grew while the U.K. Government slept.",
    "We met at 9 a.m. Pacific time in Apt. 4B near Ft. Worth.",
    "Take Ste. 200 on 5th Ave. North, as in eq. (5).",
    "It was a Tues. Morning.",
    "He lives in the U.S.",
    "She came at 5 p.m.",
    "They work at Acme Inc.",
    "It is late.",
  ];
  assert.deepEqual(splitTexts(english.join(" ")), english);
  const german = [
    "Er wohnt in der Hauptstr. 5.",
    "Das 21. Jahrhundert begann.",
    "Dann kam Hr. Meier.",
  ];
  const pieces = [...splitSegments(german.join(" "), { language: "de", maxChars: 300 })];
  assert.deepEqual(pieces.map(({ text }) => text), german);
});

Deno.test("splitSegments() ends no sentence within a URL", () => {
  assert.deepEqual(splitTexts("See a.com/b?c=1. Then go."), ["See a.com/b?c=1.", "Then go."]);
});

Deno.test("splitSegments() pauses longer after a paragraph than after a sentence", () => {
  const text = "One line\nthat is wrapped. Two.\n\nThree\n- four\n- five";
  const pieces = [...splitSegments(text, { language: "en", maxChars: 300 })];
  assert.deepEqual(pieces.map((piece) => piece.text), [
    "One line that is wrapped.",
    "Two.",
    "Three",
    "- four",
    "- five",
  ]);
  assert.ok(pieces[0]!.pauseSeconds < pieces[1]!.pauseSeconds);
});

Deno.test("splitSegments() keeps list items and images whole, and ends chunks after headings and rows of tables", () => {
  assert.deepEqual(
    splitTexts("# Title\nText goes\non.\n1. First\n2. Second. Look: ![a cat](cat.png)"),
    [
      "# Title",
      "Text goes on.",
      "1. First",
      "2. Second.",
      "Look: ![a cat](cat.png)",
    ],
  );
  assert.deepEqual(splitTexts("| a | b |\n|---|---|\n| 1 | 2 |").map(cleanText), [
    "a, b",
    "",
    "1, 2",
  ]);
});

Deno.test("splitSegments() divides long sentences at clauses, then at spaces, then anywhere", () => {
  const clauses =
    "When the night had come, and the land was dark; then the moon was the only light we saw";
  assert.deepEqual(splitTexts(clauses, 60), [
    "When the night had come, and the land was dark;",
    "then the moon was the only light we saw",
  ]);
  assert.deepEqual(splitTexts("word ".repeat(30), 40).map((text) => text.length), [39, 39, 39, 29]);
  const pieces = splitTexts("\u{1f600}".repeat(100), 33);
  assert.equal(pieces.join(""), "\u{1f600}".repeat(100));
  assert.ok(pieces.every((piece) => piece.length <= 33 && piece.isWellFormed()));
});

Deno.test("splitSegments() keeps every word of any text, in order", () => {
  const alphabet = [
    "Mr. ",
    "a",
    "B",
    ". ",
    "? ",
    ", ",
    "\n",
    "\n\n",
    " ",
    "e.g. ",
    "\u4f60",
    "\u3002",
    "1.5 ",
  ];
  let state = 3;
  const next = (n: number) => (state = (state * 48271) % 2147483647) % n;
  for (let i = 0; i < 500; i++) {
    const text = Array.from({ length: next(120) }, () => alphabet[next(alphabet.length)]).join("");
    const kept = splitTexts(text, 20);
    assert.equal(kept.join("").replaceAll(/\s/g, ""), text.replaceAll(/\s/g, ""));
    assert.ok(kept.every((piece) => piece.trim() !== "" && piece.length <= 20));
  }
});

Deno.test("halve() returns two parts until one character is left", () => {
  assert.deepEqual(halve("hello there, world of words"), ["hello there,", "world of words"]);
  assert.deepEqual(halve("ab"), ["a", "b"]);
  assert.deepEqual(halve("\u{1f600}\u{1f600}"), ["\u{1f600}", "\u{1f600}"]);
  assert.equal(halve("\u{1f600}"), undefined);
  for (let text = "x ".repeat(300).trim(); text.length > 1;) {
    const halves = halve(text)!;
    assert.ok(halves[0] !== "" && halves[1] !== "");
    text = halves[0].length > halves[1].length ? halves[0] : halves[1];
  }
});

Deno.test("cleanText() removes visual markup", () => {
  assert.equal(
    cleanText(
      "**Bold** and `code`, [a link](https://x.y/z) \u{1f600} \u201cq\u201d\u200b\u0000 it\u2019s",
    ),
    'Bold and code, a link "q" it\'s',
  );
  assert.equal(cleanText("co\u00adoperate\ttoday\ufeff"), "cooperate today");
  assert.equal(cleanText("## Title"), "Title");
  assert.equal(cleanText("![a cat](cat.png) ```js\nx``` Hi -- there"), "a cat x Hi \u2014 there");
  assert.equal(cleanText("---"), "");
  assert.equal(cleanText("AT&amp;T &lt; 10\u202f000&nbsp;"), "AT&T < 10000");
  assert.equal(cleanText("- [x] done"), "done");
  assert.equal(cleanText("- 5 < 6 * 7"), "5 < 6 * 7");
  assert.equal(cleanText("\u{1f468}\u200d\u{1f469}\u200d\u{1f467}\ufe0f"), "");
});

Deno.test("splitSegments() keeps ordinals and abbreviations of other languages within their sentences", () => {
  const cases = {
    de: [
      "Wir treffen uns am 3. Mai um 14.30 Uhr.",
      "Berlin, 3. Oktober 1990.",
      "Die 3. Auflage kostet 5 Mio. Euro.",
      "Es waren 3.",
      "Dann vier.",
    ],
    es: ["El Sr. García y la Sra. López viven en la Av. Bolívar.", "No.", "Fin."],
    fr: ["M. Dupont et Mme. Curie sont là.", "Oui."],
    it: ["Il sig. Rossi legge pag. 7.", "Basta."],
    nl: ["Dhr. Jansen leest blz. 5.", "Ja."],
    pl: ["Prof. Nowak mieszka na ul. Długiej.", "Tak."],
    pt: ["O Sr. Silva mora na Av. Paulista.", "Sim."],
    ru: ["Это ул. Ленина.", "Да."],
    sv: ["Kl. 14.30 börjar det.", "T.ex. Anna kommer."],
  };
  for (const [language, sentences] of Object.entries(cases)) {
    const pieces = [...splitSegments(sentences.join(" "), { language, maxChars: 300 })];
    assert.deepEqual(pieces.map(({ text }) => text), sentences);
  }
});

Deno.test("cleanText() removes tags, and keeps comparisons", () => {
  assert.equal(
    cleanText('<speak>Hi <break time="1s"/>there, <b>you</b></speak>'),
    "Hi there, you",
  );
  assert.equal(cleanText("a <b and c> d, <3"), "a <b and c> d, <3");
  assert.equal(cleanText("a <!-- not > said --> b"), "a b");
});
