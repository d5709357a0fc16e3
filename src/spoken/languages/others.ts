/**
 * Arabic, Hindi, Korean, Turkish and Vietnamese.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { cardinalDay, hoursAndMinuteUnits, sayMinutes } from "./common.ts";

const KOREAN_HOURS = "열두 한 두 세 네 다섯 여섯 일곱 여덟 아홉 열 열한".split(" ");

export const ARABIC: Language = {
  locale: "ar",
  decimalSign: ",",
  load: () => import("n2words/ar-SA"),
  signs: { "٪": " بالمائة", "/": " لكل " },
};

export const HINDI: Language = {
  locale: "hi",
  decimalSign: ".",
  load: () => import("n2words/hi-IN"),
  point: "दशमलव",
  signs: { "अंश": "डिग्री", "/": " प्रति " },
  square: { other: "वर्ग {}" },
  cubic: { other: "घन {}" },
  to: " से ",
  currencyNoun: "last",
  clock: {
    suffix: "बजे",
    suffixTells: true,
    say: (hour, minute, { say }) =>
      minute === 0
        ? `${say.cardinal(hour)} बजे`
        : `${say.cardinal(hour)} बजकर ${say.unit(minute, "minute")}`,
  },
  dates: { day: cardinalDay },
};

export const KOREAN: Language = {
  locale: "ko",
  decimalSign: ".",
  load: () => import("n2words/ko-KR"),
  point: "점",
  signs: { "%": " 퍼센트" },
  square: { other: "제곱{}" },
  cubic: { other: "세제곱{}" },
  to: "에서 ",
  currencyNoun: "last",
  clock: {
    say: (hour, minute, { say }) => {
      const hours = hour >= 1 && hour <= 12 ? KOREAN_HOURS[hour % 12]! : say.cardinal(hour);
      return `${hours} 시${minute === 0 ? "" : ` ${say.cardinal(minute)} 분`}`;
    },
  },
  dates: { day: cardinalDay },
  ordinals: [{
    pattern: /(?<!\d)(6|10)(월)/g,
    say: (number) => number === "6" ? "유월" : "시월",
  }],
};

export const TURKISH: Language = {
  locale: "tr",
  decimalSign: ",",
  load: () => import("n2words/tr-TR"),
  rates: { hour: "saatte {}", minute: "dakikada {}", second: "saniyede {}" },
  square: { other: "{}kare" },
  cubic: { other: "{}küp" },
  clock: {
    say: (hour, minute, context) => context.say.cardinal(hour) + sayMinutes(minute, context),
  },
  dates: { day: cardinalDay },
};

export const VIETNAMESE: Language = {
  locale: "vi",
  decimalSign: ",",
  load: () => import("n2words/vi-VN"),
  corrections: [
    [/nghìn lẻ (?=\S+ mươi|mười)/g, "nghìn không trăm "],
    [/nghìn lẻ /g, "nghìn không trăm lẻ "],
  ],
  signs: { "%": " phần trăm", "/": " trên " },
  square: { other: "{} vuông" },
  cubic: { other: "{} khối" },
  to: " đến ",
  currencyNoun: "first",
  clock: {
    letter: "h",
    say: hoursAndMinuteUnits,
  },
};
