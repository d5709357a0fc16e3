import assert from "node:assert/strict";
import { spellEnglish } from "../../../src/spoken/english.ts";

/** Written, and said. */
const CASES: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  numbers: [
    [
      "1,234,567 people",
      "one million two hundred thirty-four thousand five hundred sixty-seven people",
    ],
    ["3.14159", "three point one four one five nine"],
    [".5", "zero point five"],
    ["-5 degrees", "minus five degrees"],
    ["007 agents", "zero zero seven agents"],
    ["pages 10-20", "pages ten to twenty"],
    ["2x4", "two by four"],
    ["Item #5", "Item number five"],
    ["1/2 cup and 3/4 mile", "one half cup and three quarters mile"],
    ["\u00bd and 2\u00bd", "one half and two and one half"],
    ["9/11, 24/7 and 50/50", "nine eleven, twenty-four seven and fifty fifty"],
    ["5%-10%", "five percent to ten percent"],
    ["5 - 3 = 2", "five minus three equals two"],
    [
      "6.02e23 and 1e-5",
      "six point zero two times ten to the twenty-three and one times ten to the minus five",
    ],
    ["1.5M users, 10k runs", "one point five million users, ten thousand runs"],
    ["978-3-16-14", "nine seven eight, three, one six, one four"],
    ["99.9%", "ninety-nine point nine percent"],
    ["v2.5.1", "v two point five point one"],
    ["Call 555-123-4567.", "Call five five five one two three four five six seven."],
    [
      "12345678901234567890",
      "one two three four five six seven eight nine zero one two three four five six seven eight nine zero",
    ],
  ],
  ordinals: [
    ["the 1st, 22nd and 100th", "the first, twenty-second and one hundredth"],
    ["the 0th", "the zeroth"],
  ],
  years: [
    ["in 1984", "in nineteen eighty-four"],
    ["in 2005.", "in two thousand five."],
    ["in 1900", "in nineteen hundred"],
    ["in 1905", "in nineteen oh five"],
    ["the 1990s and the 60s", "the nineteen nineties and the sixties"],
  ],
  money: [
    ["$5.50", "five dollars and fifty cents"],
    ["$1 and $0.99", "one dollar and ninety-nine cents"],
    ["$1.01", "one dollar and one cent"],
    ["$1.2 million", "one point two million dollars"],
    ["\u00a33bn", "three billion pounds"],
    ["-\u20ac20", "minus twenty euros"],
    ["20 \u20ac or 10$", "twenty euros or ten dollars"],
    ["\u00a5500", "five hundred yen"],
    ["$1,000", "one thousand dollars"],
    ["$10-$20", "ten dollars to twenty dollars"],
    ["US$5", "US five dollars"],
    ["50\u00a2", "fifty cents"],
  ],
  dates: [
    ["March 15, 2024", "March fifteenth, twenty twenty-four"],
    ["2024-03-15", "March fifteenth, twenty twenty-four"],
    ["3/15/2024", "March fifteenth, twenty twenty-four"],
    ["4 July 2020", "July fourth, twenty twenty"],
    ["the 3rd of May", "the third of May"],
    ["Sept. 3", "September third"],
    ["Jan. 5-7, 2024", "January fifth to seventh, twenty twenty-four"],
    ["15/01/2024", "January fifteenth, twenty twenty-four"],
    ["13/45/2024", "thirteen forty-five twenty twenty-four"],
  ],
  times: [
    ["at 3:30pm", "at three thirty P M"],
    ["9:05 a.m. tomorrow", "nine oh five A M tomorrow"],
    ["12:00", "twelve o'clock"],
    ["15:45", "fifteen forty-five"],
    ["at 3 p.m.", "at three P M."],
    ["Meet at 3:05pm.", "Meet at three oh five P M."],
    ["9am-5:30pm", "nine A M to five thirty P M"],
    ["10:00 \u2013 11:30", "ten o'clock to eleven thirty"],
    ["12:30:45", "twelve thirty forty-five"],
  ],
  units: [
    ["5 km", "five kilometers"],
    ["1 kg", "one kilogram"],
    ["5'10\" tall", "five feet ten tall"],
    ["20\u00b0C", "twenty degrees Celsius"],
    ["100mph", "one hundred miles per hour"],
    ["5 GB of RAM", "five gigabytes of RAM"],
  ],
  "short forms": [
    ["Dr. Lee and Mrs. Poe", "Doctor Lee and Missus Poe"],
    ["St. John lives on Main St.", "Saint John lives on Main Street."],
    ["Dr. Smith lives on Elm Dr. in town", "Doctor Smith lives on Elm Drive in town"],
    ["The Dr. is in", "The Doctor is in"],
    ["a Ph.D. in C++ and C#", "a P H D in C plus plus and C sharp"],
    ["IT IS UP TO US: 3 OF US!", "it is up to us: three of us!"],
    ["The US IT team", "The US IT team"],
    ["THE FBI", "THE FBI"],
    ["the no. 1 song", "the number one song"],
    ["see pp. 5-10", "see pages five to ten"],
    ["e.g., this", "for example, this"],
    ["e.g. this & that", "for example, this and that"],
    ["No. 5 is alive. No.", "Number five is alive. No."],
    ["Made by Acme Inc.", "Made by Acme Incorporated."],
    ["The U.S.", "The U S."],
  ],
  signs: [
    ["a@b.com", "a at b dot com"],
    [
      "mail john.doe@example.co.uk.",
      "mail john dot doe at example dot co dot uk.",
    ],
    [
      "at www.example.com/a-b?c=1&d, or",
      "at www dot example dot com slash a dash b question mark c equals one and d, or",
    ],
    ["node.js reads file.txt.", "node dot js reads file dot txt."],
    ["and/or", "and or"],
    ["read/write", "read or write"],
    ["C + D = E", "C plus D equals E"],
    ["a * b ~ c", "a b c"],
  ],
};

for (const [kind, cases] of Object.entries(CASES)) {
  Deno.test(`spellEnglish() writes out ${kind}`, () => {
    for (const [written, said] of cases) assert.equal(spellEnglish(written), said, written);
  });
}

Deno.test("spellEnglish() leaves no figure, and takes its time with none", () => {
  const alphabet = "0123456789.,:/-$%'#\u00b0 ampstxk\u00bd";
  let state = 7;
  const next = (n: number) => (state = (state * 48271) % 2147483647) % n;
  for (let i = 0; i < 3_000; i++) {
    const text = Array.from({ length: next(40) }, () => alphabet[next(alphabet.length)]).join("");
    assert.doesNotMatch(spellEnglish(text), /\d/, text);
  }
  for (
    const part of [
      "1,",
      "1/",
      "1.",
      "$1",
      "1-",
      "1:1",
      "Mr.",
      "A.",
      "a@",
      "\u00bd",
      "May 1, ",
      "( ",
    ]
  ) {
    spellEnglish(part.repeat(500));
  }
});
