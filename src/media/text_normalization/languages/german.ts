/**
 * German.
 *
 * @module
 */
import { STOP } from "../abbreviation_rules.ts";
import { isDate, readMonths } from "../date_rules.ts";
import type { Language, Tools } from "../language.ts";
import { type LexiconData, TableLexicon } from "../lexicon.ts";
import { type CalendarDate, type Context, verbatim } from "../token.ts";
import { endsIn, nameMonth, readScales } from "./shared.ts";

const WEAK_N = endsIn(
  "am|vom|zum|beim|im|zur|dem|den|des|bis|seit|ab|einem|einen|ihrem|seinem|unserem|(?:in|an|auf|aus|bei|mit|nach|von|zu|seit) (?:der|die)",
);
const WEAK_E = endsIn("der|die|das|diese[rs]?|jede[rs]?|ihre|seine|unsere");

/** An ordinal in the form that the words before it ask for. */
function sayOrdinal(digits: string, { before }: Context, { numbers }: Tools): string {
  const words = numbers.ordinal(digits);
  if (WEAK_N.test(before)) return `${words}n`;
  return WEAK_E.test(before) ? words : `${words}r`;
}

/** Years from 1100 to 1999 in hundreds: neunzehnhundertneunzig. */
function sayYear(year: number, { numbers }: Tools): string {
  const say = (number: number) => numbers.cardinal(String(number));
  if (year < 1_100 || year >= 2_000) return say(year);
  const rest = year % 100;
  return `${say(Math.floor(year / 100))}hundert${rest === 0 ? "" : say(rest)}`;
}

function sayDate({ day, lastDay, month, year }: CalendarDate, context: Context, tools: Tools) {
  const first = sayOrdinal(String(day), context, tools);
  const last = lastDay === undefined
    ? ""
    : ` bis ${sayOrdinal(String(lastDay), { ...context, before: "zum" }, tools)}`;
  const end = year === undefined ? "" : ` ${sayYear(year, tools)}`;
  return `${first}${last} ${nameMonth(month, "de")}${end}`;
}

const LEXICON: LexiconData = {
  locale: "de",
  prefixes: "Nano Mikro Milli Zenti Dezi Hekto Kilo Mega Giga Tera Peta",
  bases: `
    m=nµmcdk Meter; g=µmk Gramm; l=µmcdh Liter; L=m Liter; s=nµm Sekunde|Sekunden|f;
    B=kMGTP Byte|Byte|n; bit=kMG Bit|Bit|n; W=mkMGT Watt|Watt|n; Wh=kMGT Wattstunde|Wattstunden|f;
    V=mk Volt|Volt|n; A=m Ampere|Ampere|n; Hz=kMG Hertz|Hertz|n; J=kM Joule|Joule|n;
    Pa=hk Pascal|Pascal|n; cal=k Kalorie|Kalorien|f`,
  units: `
    %=Prozent||n; ‰=Promille||n; °C °_C=Grad Celsius; °F °_F=Grad Fahrenheit; °=Grad; KB=Kilobyte||n;
    Std=Stunde|Stunden|f; h=Stunde|Stunden|f; Stunde=Stunde|Stunden|f; Stunden=Stunde|Stunden|f;
    Sekunden=Sekunde|Sekunden|f; Minuten=Minute|Minuten|f; Minute=Minute|Minuten|f;
    Woche=Woche|Wochen|f; Tag=Tag|Tage; Jahr=Jahr|Jahre|n; min=Minute|Minuten|f;
    Min=Minute|Minuten|f; t=Tonne|Tonnen|f; ha=Hektar|Hektar|n; PS=PS||n; dB=Dezibel||n; Zoll=Zoll;
    mi=Meile|Meilen|f; lb=Pfund||n; px=Pixel||n; EL=Esslöffel; TL=Teelöffel`,
  currencies: `
    € EUR Euro=Euro+Cent; $ US$ USD Dollar=Dollar+Cent; £ GBP Pfund=Pfund||n+Penny|Pence;
    CHF Fr.=Schweizer Franken+Rappen; ¥ JPY=Yen; ₹ INR=Rupie|Rupien|f; kr SEK=Krone|Kronen|f;
    PLN=Zloty; Cent=Cent; ct=Cent`,
  scales: {
    hundred: "hundert",
    thousand: "tausend",
    million: "Million|Millionen|f",
    billion: "Milliarde|Milliarden|f",
    trillion: "Billion|Billionen|f",
  },
  powers: { 2: "Quadrat{}", 3: "Kubik{}" },
  timePowers: { 2: "Quadrat{}", 3: "Kubik{}" },
  per: { "{}": "pro {}" },
  andCents: " ",
  to: "bis",
};

export const GERMAN: Language = {
  load: () => import("n2words/de-DE"),
  numbers: {
    minus: "minus",
    point: "Komma",
    agreement: {
      masculine: [[/\beins$/, "ein"]],
      feminine: [[/\beins$/, "eine"]],
      neuter: [[/\beins$/, "ein"]],
    },
  },
  createLexicon: (numbers) => new TableLexicon(LEXICON, numbers),
  amounts: {
    decimalSign: ",",
    scales: readScales({
      thousand: "Tausend Tsd.",
      million: "Mio. Mio Million Millionen",
      billion: "Mrd. Mrd Milliarde Milliarden",
      trillion: "Bio. Billion Billionen",
    }),
    codes: ["A", "B", "J", "V", "t"],
  },
  dates: { months: readMonths("de"), dayMark: String.raw`\.`, order: "day-month" },
  times: { suffix: "Uhr", suffixTells: true },
  abbreviations: {
    stopped: `
    z. B=zum Beispiel; d. h=das heißt; u. a=unter anderem; z. T=zum Teil; i. d. R=in der Regel;
    u. s. w=und so weiter; v. Chr=vor Christus; n. Chr=nach Christus; s. o=siehe oben;
    bzw=beziehungsweise; usw=und so weiter; ca=circa; Dr=Doktor; Prof=Professor; Hr=Herr; Fr=Frau;
    St=Sankt; evtl=eventuell; ggf=gegebenenfalls; inkl=inklusive; zzgl=zuzüglich; vgl=vergleiche;
    max=maximal; min=mindestens; Mio=Millionen; Mrd=Milliarden; Tsd=Tausend; Std=Stunden; Str=Straße;
    Jh=Jahrhundert; geb=geboren; Tel=Telefon`,
    counted: `
    Nr=Nummer; S=Seite; Abb=Abbildung; Bd=Band; Kap=Kapitel; Art=Artikel`,
    plain: `
    vs=gegen`,
  },
  signs: `
    +=plus; ==gleich; <=kleiner als; >=größer als; ≤=kleiner oder gleich; ≥=größer oder gleich;
    ≈=ungefähr; ±=plus minus; ×=mal; ÷=geteilt durch; &=und; @=at; %=Prozent; €=Euro; §=Paragraf`,
  address: `
    .=Punkt; @=at; /=Schrägstrich; \\=Backslash; :=Doppelpunkt; -=Minus; _=Unterstrich;
    ?=Fragezeichen; ==gleich; #=Raute; &=und; +=plus; ~=Tilde`,
  to: "bis",
  versus: "zu",
  ordinals: [
    {
      pattern:
        /(?<=\b(?:der|die|das|dem|den|des|diese[rsmn]?|im|am|zum|zur|vom|beim|jede[rsmn]?|seinem|ihrem|unserem|seine|ihre|unsere) )(\d{1,3})(\.)(?= \p{L})/iuy,
      say: (digits, _, context, tools) => sayOrdinal(digits, context, tools),
    },
    {
      pattern:
        /(?<![\p{L}\d.,])(\d{1,3})(\.)(?= (?:Jahrhunderts?|Jh\b|Auflage|Klasse|Stock|Platz|Kapitel|Geburtstag))/uy,
      say: (digits, _, context, tools) => sayOrdinal(digits, context, tools),
    },
  ],
  createRules: () => ({
    first: [{
      pattern: new RegExp(String.raw`(?<!\p{L})(\p{Lu}\p{L}+s)tr${STOP}`, "uy"),
      read: ([street]) => verbatim(`${street}tra\u00dfe`),
    }, {
      pattern: new RegExp(
        String.raw`(?<![\d.])([0-3]?\d)\.([01]?\d)(?:\.(?=\s*[^\s\d])|(?=\.\s*$))(?!\s?Uhr)`,
        "uy",
      ),
      read: ([day, month]) =>
        isDate(Number(day), Number(month))
          ? { kind: "date", day: Number(day), month: Number(month) }
          : undefined,
    }],
  }),
  sayDate,
  sayYear,
  sayTime: ({ hour, minute }, { after }, { numbers }) => {
    // Said once for both ends of a range.
    if (minute === 0 && /^\s?[-\u2013]\s?\d{1,2}(?:[.:]\d\d)?\s?Uhr/.test(after)) {
      return numbers.cardinal(String(hour), "masculine");
    }
    const minutes = minute === 0 ? "" : ` ${numbers.cardinal(String(minute))}`;
    return `${numbers.cardinal(String(hour), "masculine")} Uhr${minutes}`;
  },
  sayFraction: ({ whole, numerator, denominator }, _, { numbers }) => {
    const some = whole === undefined ? "" : `${numbers.cardinal(String(whole))} `;
    if (denominator === 2) {
      return numerator === 1
        ? whole === undefined ? "einhalb" : `${numbers.cardinal(String(whole))}einhalb`
        : `${some}${numbers.cardinal(String(numerator))} halbe`;
    }
    const part = numbers.ordinal(String(denominator)).replace(/te$/, "tel");
    return `${some}${numbers.cardinal(String(numerator), "neuter")} ${part[0]!.toUpperCase()}${
      part.slice(1)
    }`;
  },
};
