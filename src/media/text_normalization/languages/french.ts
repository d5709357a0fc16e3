/**
 * French.
 *
 * @module
 */
import { readMonths } from "../date_rules.ts";
import type { Language } from "../language.ts";
import { parseRoman } from "../roman.ts";
import { type LexiconData, TableLexicon } from "../lexicon.ts";
import { dayMonthYear, hoursAndMinutes, readScales } from "./shared.ts";

const LEXICON: LexiconData = {
  locale: "fr",
  prefixes: "nano micro milli centi d\u00e9ci hecto kilo m\u00e9ga giga t\u00e9ra p\u00e9ta",
  bases: `
    m=nµmcdk mètre|mètres; g=µmk gramme|grammes; l=mcdh litre|litres; L=mcd litre|litres;
    s=nµm seconde|secondes|f; o=kMGT octet|octets; B=kMGT octet|octets; bit=kMG bit|bits;
    W=mkMGT watt|watts; Wh=kMGT wattheure|wattheures; V=mk volt|volts; A=m ampère|ampères;
    Hz=kMG hertz; J=kM joule|joules; Pa=hk pascal|pascals; cal=k calorie|calories|f`,
  units: `
    %=pour cent; ‰=pour mille; °C °_C=degré Celsius|degrés Celsius;
    °F °_F=degré Fahrenheit|degrés Fahrenheit; °=degré|degrés; h=heure|heures|f;
    heure heures=heure|heures|f; min mn=minute|minutes|f; minute minutes=minute|minutes|f;
    semaine semaines=semaine|semaines|f; ha=hectare|hectares; t=tonne|tonnes|f; ch=cheval|chevaux;
    dB=décibel|décibels; px=pixel|pixels; mi=mile|miles; lb=livre|livres|f;
    cs=cuillère à soupe|cuillères à soupe|f; cc=cuillère à café|cuillères à café|f`,
  currencies: `
    € EUR=euro|euros+centime|centimes; euro euros=euro|euros; $ US$ USD=dollar|dollars+cent|cents;
    £ GBP=livre|livres|f+penny|pence; CHF=franc suisse|francs suisses+centime|centimes;
    ¥ JPY=yen|yens; ₹ INR=roupie|roupies|f; kr SEK=couronne|couronnes|f; PLN=zloty|zlotys;
    CAD=dollar canadien|dollars canadiens+cent|cents`,
  scales: {
    hundred: "cent",
    thousand: "mille",
    million: "million|millions",
    billion: "milliard|milliards",
    trillion: "billion|billions",
  },
  powers: { 2: "{} carr\u00e9|{} carr\u00e9s", 3: "{} cube|{} cubes" },
  timePowers: { 2: "{} carr\u00e9e|{} carr\u00e9es", 3: "{} cube|{} cubes" },
  per: { "{}": "par {}" },
  andCents: " ",
  link: (noun) => /^[aeiouh\u00e9\u0153]/i.test(noun) ? ` d'${noun}` : ` de ${noun}`,
  to: "\u00e0",
};

export const FRENCH: Language = {
  load: () => import("n2words/fr-FR"),
  numbers: {
    minus: "moins",
    point: "virgule",
    agreement: { feminine: [[/\bun$/, "une"]] },
  },
  createLexicon: (numbers) => new TableLexicon(LEXICON, numbers),
  amounts: {
    decimalSign: ",",
    scales: readScales({ million: "million millions M", billion: "milliard milliards Md" }),
    codes: ["A", "B", "J", "V", "t", "o"],
  },
  dates: { months: readMonths("fr"), dayMark: "er", order: "day-month" },
  times: { suffix: String.raw`h(?:eures?)?(?!\p{L})`, letter: "h" },
  abbreviations: {
    stopped: `
    M=monsieur; MM=messieurs; Dr=docteur; Pr=professeur; St=saint; Ste=sainte; etc=et cetera;
    p. ex=par exemple; c.-à-d=c'est-à-dire; env=environ; av. J.-C=avant Jésus-Christ;
    apr. J.-C=après Jésus-Christ; av=avenue; bd=boulevard; janv=janvier; févr=février; avr=avril;
    juil=juillet; sept=septembre; oct=octobre; nov=novembre; déc=décembre; tél=téléphone;
    max=maximum; min=minimum`,
    counted: `
    p=page; pp=pages; chap=chapitre; art=article; fig=figure; vol=volume`,
    plain: `
    Mme=madame; Mmes=mesdames; Mlle=mademoiselle; Mgr=monseigneur; n°=numéro; N°=Numéro; vs=contre;
    c-à-d=c'est-à-dire; Bd=boulevard`,
  },
  signs: `
    +=plus; ==égale; <=inférieur à; >=supérieur à; ≤=inférieur ou égal à; ≥=supérieur ou égal à;
    ≈=environ; ±=plus ou moins; ×=fois; ÷=divisé par; &=et; @=arobase; %=pour cent; €=euros;
    §=paragraphe`,
  address: `
    .=point; @=arobase; /=slash; \\=antislash; :=deux-points; -=tiret; _=tiret bas;
    ?=point d'interrogation; ==égale; #=dièse; &=et; +=plus; ~=tilde`,
  to: "\u00e0",
  versus: "\u00e0",
  ordinals: [
    {
      pattern: /(?<![\p{L}\d.,])(1)(er|re|\u00e8re)s?(?![\p{L}\d])/uy,
      say: (_, mark) => mark === "er" ? "premier" : "premi\u00e8re",
    },
    {
      pattern: /(?<![\p{L}\d.,])(\d+)(e|\u00e8me|eme|nd|nde)s?(?![\p{L}\d])/uy,
      say: (digits, mark, _, { numbers }) =>
        mark === "nd" ? "second" : mark === "nde" ? "seconde" : numbers.ordinal(digits),
    },
    {
      pattern: /(?<!\p{L})((?=[IVX])X{0,2}(?:IX|IV|V?I{0,3}))(e|er|\u00e8me)(?= si\u00e8cle)/uy,
      say: (numeral, _, __, { numbers }) => numbers.ordinal(parseRoman(numeral)),
    },
  ],
  sayDate: dayMonthYear({ locale: "fr", to: "au", hasOrdinalFirst: true }),
  sayTime: hoursAndMinutes,
  // In pairs.
  sayTelephone: (text, { numbers }) =>
    text.match(/\d+/g)!.map((group) =>
      group.length === 2 && !group.startsWith("0") ? numbers.cardinal(group) : numbers.digits(group)
    ).join(" "),
  sayFraction: ({ whole, numerator, denominator }, { after }, { numbers }) => {
    const isFeminine = denominator === 2 && FEMININE.test(after);
    const say = (number: number) =>
      numbers.cardinal(String(number), isFeminine ? "feminine" : "masculine");
    const some = whole === undefined ? "" : `${say(whole)} et `;
    const names: Readonly<Record<number, string>> = { 2: "demi", 3: "tiers", 4: "quart" };
    const part = names[denominator] ?? numbers.ordinal(String(denominator));
    const isPlural = numerator > 1 && denominator !== 3;
    return `${some}${say(numerator)} ${part}${isPlural ? "s" : ""}`;
  },
};

/** Feminine nouns that are halved. */
const FEMININE =
  /^ (?:tasse|heure|livre|douzaine|journ\u00e9e|cuill\u00e8re|bouteille|portion|page)/;
