/**
 * Italian.
 *
 * @module
 */
import { readMonths } from "../date_rules.ts";
import type { Language } from "../language.ts";
import { parseRoman } from "../roman.ts";
import { type LexiconData, TableLexicon } from "../lexicon.ts";
import { dayMonthYear, feminineHour, readScales } from "./shared.ts";

const LEXICON: LexiconData = {
  locale: "it",
  prefixes: "nano micro milli centi deci etto chilo mega giga tera peta",
  bases: `
    m=nµmcdk metro|metri; g=µmhk grammo|grammi; l=mcdh litro|litri; L=mcd litro|litri;
    s=nµm secondo|secondi; B=kMGT byte; bit=kMG bit; W=mkMGT watt; Wh=kMGT wattora; V=mk volt;
    A=m ampere; Hz=kMG hertz; J=kM joule; Pa=hk pascal; cal=k caloria|calorie|f`,
  units: `
    %=per cento||n; ‰=per mille||n; °C °_C=grado Celsius|gradi Celsius;
    °F °_F=grado Fahrenheit|gradi Fahrenheit; °=grado|gradi; h=ora|ore|f; ora ore=ora|ore|f;
    min=minuto|minuti; minuto minuti=minuto|minuti; anno anni=anno|anni;
    settimana settimane=settimana|settimane|f; ha=ettaro|ettari; t=tonnellata|tonnellate|f;
    CV=cavallo|cavalli; dB=decibel; px=pixel; mi=miglio|miglia; lb=libbra|libbre|f`,
  currencies: `
    € EUR euro=euro+centesimo|centesimi; $ US$ USD=dollaro|dollari+centesimo|centesimi;
    £ GBP=sterlina|sterline|f+penny|pence; CHF=franco svizzero|franchi svizzeri+centesimo|centesimi;
    ¥ JPY=yen; ₹ INR=rupia|rupie|f; kr SEK=corona|corone|f; PLN=zloty`,
  scales: {
    hundred: "cento",
    thousand: "mila",
    million: "milione|milioni",
    billion: "miliardo|miliardi",
    trillion: "bilione|bilioni",
  },
  powers: { 2: "{} quadrato|{} quadrati", 3: "{} cubo|{} cubi" },
  timePowers: { 2: "{} quadrato|{} quadrati", 3: "{} cubo|{} cubi" },
  per: {
    "{}": "per {}",
    h: "all'ora",
    ora: "all'ora",
    s: "al secondo",
    min: "al minuto",
    kg: "al chilogrammo",
    l: "al litro",
    mese: "al mese",
    anno: "all'anno",
    giorno: "al giorno",
  },
  andCents: " e ",
  link: (noun) => ` di ${noun}`,
  to: "a",
  elisions: [[/\buna (?=[aeiou])/, "un'"]],
};

export const ITALIAN: Language = {
  load: () => import("n2words/it-IT"),
  numbers: {
    minus: "meno",
    point: "virgola",
    corrections: [[/(?<=mila) e /g, ""]],
    agreement: {
      masculine: [[/\buno$/, "un"]],
      feminine: [[/\buno$/, "una"]],
    },
    ordinalAgreement: { feminine: [[/o$/, "a"]] },
  },
  createLexicon: (numbers) => new TableLexicon(LEXICON, numbers),
  amounts: {
    decimalSign: ",",
    scales: readScales({ million: "milione milioni mln", billion: "miliardo miliardi mld" }),
    codes: ["A", "B", "J", "V", "t"],
  },
  dates: { months: readMonths("it"), dayMark: "[\u00ba\u00b0]", order: "day-month" },
  times: { prefix: "ore|alle|dalle|le|Alle|Dalle", letter: "h" },
  abbreviations: {
    stopped: `
    sig=signor; Sig=Signor; sig.ra=signora; Sig.ra=Signora; sigg=signori; dott=dottor; Dott=Dottor;
    dott.ssa=dottoressa; Dott.ssa=Dottoressa; prof=professor; Prof=Professor; prof.ssa=professoressa;
    ing=ingegner; Ing=Ingegner; avv=avvocato; Avv=Avvocato; p. es=per esempio; es=esempio;
    ecc=eccetera; a. C=avanti Cristo; d. C=dopo Cristo; tel=telefono; Tel=Telefono; circa=circa;
    ca=circa; max=massimo; min=minimo`,
    counted: `
    n=numero; N=Numero; pag=pagina; pagg=pagine; p=pagina; cap=capitolo; art=articolo; fig=figura;
    vol=volume`,
    plain: `
    n°=numero; vs=contro; dott.ssa=dottoressa; sig.ra=signora; Sig.ra=Signora`,
  },
  signs: `
    +=più; ==uguale a; <=minore di; >=maggiore di; ≤=minore o uguale a; ≥=maggiore o uguale a;
    ≈=circa; ±=più o meno; ×=per; ÷=diviso; &=e; @=chiocciola; %=per cento; €=euro; §=paragrafo`,
  address: `
    .=punto; @=chiocciola; /=barra; \\=barra rovesciata; :=due punti; -=trattino; _=trattino basso;
    ?=punto interrogativo; ==uguale; #=cancelletto; &=e; +=più; ~=tilde`,
  to: "a",
  versus: "a",
  ordinals: [{
    pattern: /(?<!\p{L})([IVX]+)()(?= secolo)/uy,
    say: (numeral, _, __, { numbers }) => numbers.ordinal(parseRoman(numeral)),
  }, {
    pattern: /(?<![\p{L}\d.,])(\d+)([\u00ba\u00aa]|\u00b0(?!\s?[CF]\b)(?= \p{L}{2}))/uy,
    say: (digits, mark, _, { numbers }) =>
      numbers.ordinal(digits, mark === "\u00aa" ? "feminine" : "masculine"),
  }],
  sayDate: dayMonthYear({ locale: "it", to: "al", hasOrdinalFirst: true }),
  sayTime: feminineHour("e"),
  sayFraction: ({ whole, numerator, denominator }, { after }, { numbers }) => {
    const say = (number: number) => numbers.cardinal(String(number), "masculine");
    const some = whole === undefined ? "" : `${numbers.cardinal(String(whole))} e `;
    if (denominator === 2 && numerator === 1) {
      return `${some}${/^ \p{L}+a(?!\p{L})/u.test(after) ? "mezza" : "mezzo"}`;
    }
    const part = denominator === 2 ? "mezzo" : numbers.ordinal(String(denominator));
    return `${some}${say(numerator)} ${numerator > 1 ? part.replace(/o$/, "i") : part}`;
  },
};
