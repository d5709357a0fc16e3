import assert from "node:assert/strict";
import { loadNormalizer } from "../../../../src/media/text_normalization/normalize.ts";

const normalize = await loadNormalizer("en");

/** Written and spoken text. */
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
    [
      "1,999 people in 1999",
      "one thousand nine hundred ninety-nine people in nineteen ninety-nine",
    ],
    ["1,999.5 and 1,2,3", "one thousand nine hundred ninety-nine point five and one,two,three"],
    ["10 000 000 and 1_000_000", "ten million and one million"],
    ["20 -5", "twenty minus five"],
    ["20 \u2212 5, (-5) and +5", "twenty minus five, (minus five) and plus five"],
    ["1 1/2 cups, 3/8 and 1/100", "one and one half cups, three eighths and one one hundredth"],
    [
      "\u215c, 7/10 and 3/10 of a mile",
      "three eighths, seven out of ten and three tenths of a mile",
    ],
    [
      "12/25 and 16GB/512GB",
      "twelve twenty-five and sixteen gigabytes five hundred twelve gigabytes",
    ],
    [
      "10^6, x\u00b2 and 10\u207b\u00b3",
      "ten to the power of six, x squared and ten to the power of minus three",
    ],
    ["CO\u2082 and E=mc\u00b2", "CO two and E equals mc squared"],
    ["GPT-4, COVID-19 and P1102w", "GPT four, COVID nineteen and P eleven oh two w"],
    ["a 5-year-old, R2-D2", "a five-year-old, R two-D two"],
    [
      "+1 555 123 4567 or 555.123.4567",
      "plus one five five five one two three four five six seven or five five five one two three four five six seven",
    ],
    ["+44 20 7946 0958", "plus four four two zero seven nine four six zero nine five eight"],
    ["Call 911 or 1-800-FLOWERS", "Call nine one one or one eight hundred FLOWERS"],
    ["1.0.0-beta.2", "one point zero point zero beta two"],
    ["100s of 18+", "hundreds of eighteen plus"],
    ["10x faster", "ten times faster"],
  ],
  ordinals: [
    ["the 1st, 22nd and 100th", "the first, twenty-second and one hundredth"],
    ["the 0th", "the zeroth"],
    ["1,000th in the 20th-century", "one thousandth in the twentieth-century"],
  ],
  years: [
    ["in 1984", "in nineteen eighty-four"],
    ["in 2005.", "in two thousand five."],
    ["in 1900", "in nineteen hundred"],
    ["in 1905", "in nineteen oh five"],
    ["the 1990s and the 60s", "the nineteen nineties and the sixties"],
    ["1066 in 1066", "one thousand sixty-six in ten sixty-six"],
    ["1980's and mid-1990s", "nineteen eighties and mid-nineteen nineties"],
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
    ["US$5", "five US dollars"],
    ["50\u00a2", "fifty cents"],
    [
      "$5/hour and $1,200/mo",
      "five dollars per hour and one thousand two hundred dollars per month",
    ],
    ["$.50", "fifty cents"],
    ["$-5", "minus five dollars"],
    ["$1,999.50", "one thousand nine hundred ninety-nine dollars and fifty cents"],
    ["$5-10k", "five to ten thousand dollars"],
    ["\u20ac1.234,56", "one thousand two hundred thirty-four euros and fifty-six cents"],
    ["USD 500, 20 EUR and C$5", "five hundred US dollars, twenty euros and five Canadian dollars"],
    ["R$5 and $27.4T", "five reais and twenty-seven point four trillion dollars"],
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
    ["Chapter 7 2024-03-15", "Chapter seven March fifteenth, twenty twenty-four"],
    ["sold 5 3/15/2024", "sold five March fifteenth, twenty twenty-four"],
    ["version 3 January 5", "version three January fifth"],
    ["the 4th of July, 2020", "the fourth of July, twenty twenty"],
    [
      "12/25/24 and 2024/03/15",
      "December twenty-fifth, twenty twenty-four and March fifteenth, twenty twenty-four",
    ],
    ["15.03.2024", "March fifteenth, twenty twenty-four"],
    ["due 4/7", "due April seventh"],
    ["2024-03-15T10:30:00Z", "March fifteenth, twenty twenty-four at ten thirty UTC"],
    ["Mon-Fri, Dec 2024", "Monday to Friday, December twenty twenty-four"],
    ["on Sat, Jan. 5 in the Sun.", "on Saturday, January fifth in the Sun."],
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
    ["0:00 and 15:00", "midnight and fifteen hundred"],
    ["1:02:03", "one oh two oh three"],
    ["a score of 3:2, 16:9", "a score of three to two, sixteen to nine"],
    [
      "John 3:16 and Psalm 119:105",
      "John three sixteen and Psalm one hundred nineteen one hundred five",
    ],
    [
      "2h30, 16h 40m and 5m30s",
      "two hours thirty minutes, sixteen hours forty minutes and five minutes thirty seconds",
    ],
  ],
  units: [
    ["5 km", "five kilometers"],
    ["1 kg", "one kilogram"],
    ["5'10\" tall", "five feet ten tall"],
    ["20\u00b0C", "twenty degrees Celsius"],
    ["100mph", "one hundred miles per hour"],
    ["5 GB of RAM", "five gigabytes of RAM"],
    [
      "5 m\u00b2, 10 km3 and 2 sq ft",
      "five square meters, ten cubic kilometers and two square feet",
    ],
    [
      "9.8 m/s\u00b2 and 5 mg/L",
      "nine point eight meters per second squared and five milligrams per liter",
    ],
    [
      "5 MB/s, 90 km/h, in km/h",
      "five megabytes per second, ninety kilometers per hour, in kilometers per hour",
    ],
    ["1 ft, 1 hr and a 5-km run", "one foot, one hour and a five-kilometer run"],
    ["5 \u03bcm in 0.5s", "five micrometers in zero point five seconds"],
    ["60 W at 230V", "sixty watts at two hundred thirty volts"],
    ["30\u00b0C-35\u00b0C", "thirty degrees Celsius to thirty-five degrees Celsius"],
    ["5 in 10", "five in ten"],
    ['a 27" screen, "27"', 'a twenty-seven inch screen, "twenty-seven"'],
    ["200 tokens/second, 3x/week", "two hundred tokens per second, three times per week"],
  ],
  "Roman numerals": [
    ["World War II, Chapter IV", "World War two, Chapter four"],
    [
      "Louis XIV and Elizabeth I, of Rocky III",
      "Louis the fourteenth and Elizabeth the first, of Rocky three",
    ],
    ["the XIX century, Act I", "the nineteenth century, Act one"],
    ["Mary I think the IV drip, XL, I", "Mary I think the IV drip, XL, I"],
    ["Super Bowl LVIII and WWII", "Super Bowl fifty-eight and World War two"],
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
    ["NASA, FBI, SQL AND JPEG", "NASA, FBI, SQL AND JPEG"],
    ["the no. 1 song", "the number one song"],
    ["see pp. 5-10", "see pages five to ten"],
    ["e.g., this", "for example, this"],
    ["e.g. this & that", "for example, this and that"],
    ["No. 5 is alive. No.", "Number five is alive. No."],
    ["Made by Acme Inc.", "Made by Acme Incorporated."],
    ["The U.S.", "The U S."],
    ["A vs B w/o C", "A versus B without C"],
    ["Model no. 5, p. 3, ext. 42", "Model number five, page three, extension forty-two"],
    ["he said no. 5 came", "he said no. five came"],
    ["my 401(k)", "my four oh one K"],
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
    [
      "https://foo.xyz/a_b or localhost:3000",
      "foo dot xyz slash a underscore b or localhost colon three thousand",
    ],
    [
      "http://192.168.1.1:80/.",
      "one hundred ninety-two dot one hundred sixty-eight dot one dot one colon eighty.",
    ],
    ["/usr/local/bin, ~/a.txt", "slash usr slash local slash bin, tilde slash a dot txt"],
    [
      "src/text/rule.ts and .NET",
      "src slash text slash rule dot ts and dot NET",
    ],
    ["@me, #tag and TCP/IP", "at me, hashtag tag and TCP IP"],
    ["5 < 6, a -> b, 3*4", "five less than six, a to b, three times four"],
    ["x \u2264 10 \u00b1 2 \u00d7 3", "x less than or equal to ten plus or minus two times three"],
    ["~5 and \u00a75", "about five and section five"],
  ],
};

for (const [kind, cases] of Object.entries(CASES)) {
  Deno.test(`loadNormalizer() spells out ${kind}`, () => {
    for (const [written, said] of cases) assert.equal(normalize(written), said, written);
  });
}

Deno.test("loadNormalizer() leaves no digit of random text, and accepts long repetitions", () => {
  const alphabet = "0123456789.,:/-$%'#\u00b0 ampsthxkIVX\u00bd\u00b2\u2082^+*";
  let state = 7;
  const next = (n: number) => (state = (state * 48271) % 2147483647) % n;
  for (let i = 0; i < 3_000; i++) {
    const text = Array.from({ length: next(40) }, () => alphabet[next(alphabet.length)]).join("");
    assert.doesNotMatch(normalize(text), /\d/, text);
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
    normalize(part.repeat(500));
  }
});
