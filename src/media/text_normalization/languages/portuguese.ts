/**
 * Portuguese, as in Brazil.
 *
 * @module
 */
import { readMonths } from "../date_rules.ts";
import type { Language } from "../language.ts";
import { parseRoman } from "../roman.ts";
import { type LexiconData, TableLexicon } from "../lexicon.ts";
import { dayMonthYear, readScales } from "./shared.ts";

const LEXICON: LexiconData = {
  locale: "pt",
  prefixes: "nano micro mili cent\u00ed dec\u00ed hecto quil\u00f4 mega giga tera peta",
  bases: `
    m=nµmcdk metro|metros; s=nµm segundo|segundos; B=kMGT byte|bytes; bit=kMG bit|bits;
    V=k volt|volts; A=m ampere|amperes; Hz=MG hertz; Pa=h pascal|pascais`,
  units: `
    g=grama|gramas; kg=quilograma|quilogramas; mg=miligrama|miligramas; µg=micrograma|microgramas;
    l L=litro|litros; ml mL=mililitro|mililitros; W=watt|watts; kW=quilowatt|quilowatts;
    MW=megawatt|megawatts; Wh=watt-hora|watts-hora; kWh=quilowatt-hora|quilowatts-hora;
    kHz=quilohertz; J=joule|joules; cal=caloria|calorias|f; kcal=quilocaloria|quilocalorias|f;
    %=por cento||n; °C °_C ºC=grau Celsius|graus Celsius; °F °_F=grau Fahrenheit|graus Fahrenheit;
    °=grau|graus; h=hora|horas|f; hora horas=hora|horas|f; min=minuto|minutos;
    minuto minutos=minuto|minutos; semana semanas=semana|semanas|f; ha=hectare|hectares;
    t=tonelada|toneladas|f; cv=cavalo|cavalos; dB=decibel|decibéis; px=pixel|pixels;
    mi=milha|milhas|f; lb=libra|libras|f`,
  currencies: `
    R$ BRL=real|reais+centavo|centavos; € EUR=euro|euros+cêntimo|cêntimos; euro euros=euro|euros;
    $ US$ USD=dólar|dólares+centavo|centavos; £ GBP=libra|libras|f+pence|pence;
    CHF=franco suíço|francos suíços+cêntimo|cêntimos; ¥ JPY=iene|ienes; ₹ INR=rupia|rupias|f;
    kr SEK=coroa|coroas|f; PLN=zloty|zlotys`,
  scales: {
    hundred: "cem",
    thousand: "mil",
    million: "milh\u00e3o|milh\u00f5es",
    billion: "bilh\u00e3o|bilh\u00f5es",
    trillion: "trilh\u00e3o|trilh\u00f5es",
  },
  powers: { 2: "{} quadrado|{} quadrados", 3: "{} c\u00fabico|{} c\u00fabicos" },
  timePowers: { 2: "{} ao quadrado|{} ao quadrado", 3: "{} ao cubo|{} ao cubo" },
  per: { "{}": "por {}" },
  andCents: " e ",
  saysCents: true,
  link: (noun) => ` de ${noun}`,
  to: "a",
};

export const PORTUGUESE: Language = {
  load: () => import("n2words/pt-PT"),
  numbers: {
    minus: "menos",
    point: "v\u00edrgula",
    corrections: [[/dezasse(?=is|te)/g, "dezesse"], [/dezanove/g, "dezenove"]],
    agreement: {
      feminine: [
        [/\bum$/, "uma"],
        [/\bdois(?=$| mil(?!h))/, "duas"],
        [/entos\b(?!.*milh)/g, "entas"],
      ],
    },
    ordinalAgreement: { feminine: [[/o\b/g, "a"]] },
  },
  createLexicon: (numbers) => new TableLexicon(LEXICON, numbers),
  amounts: {
    decimalSign: ",",
    scales: readScales({
      thousand: "mil",
      million: "milh\u00e3o milh\u00f5es mi",
      billion: "bilh\u00e3o bilh\u00f5es bi",
      trillion: "trilh\u00e3o trilh\u00f5es",
    }),
    codes: ["A", "B", "J", "V", "t"],
  },
  dates: { months: readMonths("pt"), link: "de", dayMark: "[\u00ba\u00b0]", order: "day-month" },
  times: { suffix: String.raw`h(?:oras|rs?)?(?!\p{L})`, letter: "h" },
  abbreviations: {
    stopped: `
    Sr=senhor; Sra=senhora; Srta=senhorita; Srs=senhores; Dr=doutor; Dra=doutora; Prof=professor;
    Profa=professora; Av=avenida; R=rua; p. ex=por exemplo; a. C=antes de Cristo;
    d. C=depois de Cristo; etc=et cetera; aprox=aproximadamente; tel=telefone; Tel=Telefone;
    máx=máximo; mín=mínimo; Sto=Santo; Sta=Santa`,
    counted: `
    núm=número; pág=página; págs=páginas; p=página; cap=capítulo; art=artigo; fig=figura; vol=volume`,
    plain: `
    n.º=número; nº=número; Nº=Número; vs=contra`,
  },
  signs: `
    +=mais; ==igual a; <=menor que; >=maior que; ≤=menor ou igual a; ≥=maior ou igual a;
    ≈=aproximadamente; ±=mais ou menos; ×=vezes; ÷=dividido por; &=e; @=arroba; %=por cento; €=euros;
    §=parágrafo`,
  address: `
    .=ponto; @=arroba; /=barra; \\=barra invertida; :=dois pontos; -=hífen; _=sublinhado;
    ?=interrogação; ==igual; #=cerquilha; &=e; +=mais; ~=til`,
  to: "a",
  versus: "a",
  ordinals: [{
    pattern: /(?<=\b[sS]\u00e9culo )([IVX]+)()(?!\p{L})/uy,
    say: (numeral, _, __, { numbers }) => numbers.cardinal(parseRoman(numeral)),
  }, {
    pattern: /(?<![\p{L}\d.,])(\d+)\.?([\u00ba\u00aa]|[oa](?=\s))(?!C)/uy,
    say: (digits, mark, _, { numbers }) =>
      numbers.ordinal(digits, /[\u00aaa]/.test(mark) ? "feminine" : "masculine"),
  }],
  sayDate: dayMonthYear({ locale: "pt", link: " de ", to: "a", hasOrdinalFirst: true }),
  sayTime: ({ hour, minute }, _, { numbers, lexicon }) => {
    const digits = String(hour);
    return minute === 0
      ? lexicon.measure({ kind: "measure", amount: { isNegative: false, digits }, unit: "h" })
      : `${numbers.cardinal(digits, "feminine")} e ${numbers.cardinal(String(minute))}`;
  },
  sayFraction: ({ whole, numerator, denominator }, { after }, { numbers }) => {
    const say = (number: number) => numbers.cardinal(String(number), "masculine");
    const some = whole === undefined ? "" : `${say(whole)} e `;
    if (denominator === 2 && numerator === 1) {
      return `${some}${/^ \p{L}+a(?!\p{L})/u.test(after) ? "meia" : "meio"}`;
    }
    const names: Readonly<Record<number, string>> = { 2: "meio", 3: "ter\u00e7o" };
    const part = names[denominator] ?? numbers.ordinal(String(denominator));
    return `${some}${say(numerator)} ${part}${numerator > 1 ? "s" : ""}`;
  },
};
