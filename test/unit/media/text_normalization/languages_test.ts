import assert from "node:assert/strict";
import { loadNormalizer } from "../../../../src/media/text_normalization/normalize.ts";

/** Written and spoken text of languages for which only `Intl` and n2words have the words. */
const CASES: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  ar: [["5 %", "خمسة بالمائة"], ["20 كم", "عشرون كيلومترًا"]],
  hi: [
    ["5%", "पाँच प्रतिशत"],
    ["10 km", "दस किलोमीटर"],
    ["5:00 बजे", "पाँच बजे"],
    ["15/03/2024", "पंद्रह मार्च दो हज़ार चौबीस"],
    ["2.05", "दो दशमलव शून्य पाँच"],
  ],
  ko: [["5%", "오 퍼센트"], ["100km/h", "시속 백킬로미터"], ["3.14", "삼 점 일 사"]],
  nl: [
    ["5,50 €", "vijf euro vijftig"],
    ["100 km/h", "honderd kilometer per uur"],
    ["10-20 km", "tien tot twintig kilometer"],
    ["15-03-2024", "vijftien maart tweeduizend vierentwintig"],
    ["1.000.000 en 2,5", "één miljoen en twee komma vijf"],
  ],
  pl: [
    ["2 km i 5 km", "dwa kilometry i pięć kilometrów"],
    ["1,5 km", "jeden przecinek pięć kilometra"],
    ["5 zł", "pięć złotych polskich"],
    ["14:30", "czternaście trzydzieści"],
  ],
  ru: [
    ["1 %, 2 % и 5 %", "один процент, два процента и пять процентов"],
    ["100 км/ч", "сто километров в час"],
    ["1,5 кг", "один запятая пять килограмма"],
    ["Один из 10 с трудом", "Один из десять с трудом"],
  ],
  sv: [["5 %", "fem procent"], ["2 kg", "två kilogram"]],
  tr: [["%5", "yüzde beş"], ["14:30", "on dört otuz"]],
  uk: [["8 %", "вісім відсотків"], ["2 км", "два кілометри"]],
  vi: [["5%", "năm phần trăm"], ["2024", "hai nghìn không trăm hai mươi bốn"]],
};

for (const [language, cases] of Object.entries(CASES)) {
  Deno.test(`loadNormalizer() spells out ${language}`, async () => {
    const normalize = await loadNormalizer(language);
    for (const [written, said] of cases) assert.equal(normalize(written), said);
  });
}

/** Sentences whose words were checked one by one: written text, a tab, spoken text. */
for (const language of ["en", "de", "fr", "es", "it", "pt"]) {
  Deno.test(`loadNormalizer() normalizes the sentences of ${language}`, async () => {
    const normalize = await loadNormalizer(language);
    const file = new URL(`./cases/${language}.tsv`, import.meta.url);
    const lines = (await Deno.readTextFile(file)).trimEnd().split("\n");
    assert.ok(lines.length >= (language === "en" ? 400 : 60));
    for (const line of lines) {
      const [written, said] = line.split("\t");
      assert.equal(normalize(written!), said, written);
    }
  });
}

Deno.test("loadNormalizer() reads text that is no time, date or unit as plain numbers", async () => {
  const normalize = await loadNormalizer("de");
  const cases = [
    ["32.13.2024", "zweiunddreißig Punkt dreizehn Punkt zweitausendvierundzwanzig"],
    ["30.02.2024", "dreißig Punkt zwei Punkt zweitausendvierundzwanzig"],
    ["5 mal 3", "fünf mal drei"],
    ["3-1", "drei zu eins"],
    ["Version 2.10.3", "Version zwei Punkt zehn Punkt drei"],
  ] as const;
  for (const [written, said] of cases) assert.equal(normalize(written), said);
});

Deno.test("loadNormalizer() only removes markup if the language's numbers are unknown", async () => {
  const normalize = await loadNormalizer("ja");
  assert.equal(normalize("**5** https://a.b"), "5 a.b");
});

Deno.test("loadNormalizer() leaves no digit of a time, a day or a number with a unit", async () => {
  const minutes = Array.from({ length: 60 }, (_, minute) => String(minute).padStart(2, "0"));
  const times = Array.from(
    { length: 24 },
    (_, hour) => minutes.map((minute) => `${hour}:${minute}`),
  );
  const days = Array.from({ length: 31 }, (_, day) => `${day + 1}.${day % 12 + 1}.2024`);
  const units = ["km", "km/h", "%", "\u00b0C", "kB", "$", "EUR"]
    .flatMap((unit) => ["0", "1", "2", "2,50", "-1"].map((number) => `${number} ${unit}`));
  for (const language of [...Object.keys(CASES), "de", "fr", "es", "it", "pt"]) {
    const normalize = await loadNormalizer(language);
    for (const text of [...times.flat(), ...days, ...units]) {
      assert.doesNotMatch(normalize(text), /\d|undefined/, `${language}: ${text}`);
    }
  }
});

Deno.test("loadNormalizer() speaks every sign between words, except listed silent ones", async () => {
  const pauses =
    ".,;:!?()\"'-\u2013\u2014\u2026\u00a1\u00bf\u00ab\u00bb\u2018\u2019\u201c\u201d\u201e";
  const unspoken = "*_~^|\\<>{}[]`\u00b4\u00a8\u00b7\u2022$/#";
  const signs = [
    ...Array.from({ length: 0x7f - 0x21 }, (_, i) => String.fromCodePoint(0x21 + i)),
    ..."\u00a2\u00a3\u00a5\u00a7\u00a9\u00ae\u00b0\u00b1\u00b5\u00b6\u00d7\u00f7\u20ac\u2122\u2211\u221a\u221e\u2248\u2260\u2264\u2265\u03c0",
  ];
  const normalize = await loadNormalizer("en");
  for (const sign of signs) {
    const said = normalize(`up ${sign} down`);
    const isSaid = /^up .*[\p{L}\p{N}].* down$/u.test(said);
    assert.ok(isSaid || pauses.includes(sign) || unspoken.includes(sign), `${sign}: ${said}`);
  }
});
