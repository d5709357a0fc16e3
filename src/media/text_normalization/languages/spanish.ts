/**
 * Spanish.
 *
 * @module
 */
import { readMonths } from "../date_rules.ts";
import type { Language } from "../language.ts";
import { parseRoman } from "../roman.ts";
import { type LexiconData, TableLexicon } from "../lexicon.ts";
import { dayMonthYear, feminineHour, readScales } from "./shared.ts";

const LEXICON: LexiconData = {
  locale: "es",
  prefixes: "nano micro mili cent\u00ed dec\u00ed hecto kil\u00f3 mega giga tera peta",
  bases: `
    m=nµmcdk metro|metros; l=mcdh litro|litros; L=mcd litro|litros; s=nµm segundo|segundos;
    B=kMGT byte|bytes; bit=kMG bit|bits; V=mk voltio|voltios; A=m amperio|amperios;
    Pa=hk pascal|pascales`,
  units: `
    g=gramo|gramos; kg=kilogramo|kilogramos; mg=miligramo|miligramos; µg=microgramo|microgramos;
    W=vatio|vatios; kW=kilovatio|kilovatios; MW=megavatio|megavatios; GW=gigavatio|gigavatios;
    Wh=vatio hora|vatios hora; kWh=kilovatio hora|kilovatios hora;
    MWh=megavatio hora|megavatios hora; Hz=hercio|hercios; kHz=kilohercio|kilohercios;
    MHz=megahercio|megahercios; GHz=gigahercio|gigahercios; J=julio|julios; kJ=kilojulio|kilojulios;
    cal=caloría|calorías|f; kcal=kilocaloría|kilocalorías|f; %=por ciento||n;
    °C °_C ºC=grado Celsius|grados Celsius; °F °_F=grado Fahrenheit|grados Fahrenheit;
    °=grado|grados; h=hora|horas|f; hora horas=hora|horas|f; min=minuto|minutos;
    minuto minutos=minuto|minutos; año años=año|años; día días=día|días;
    semana semanas=semana|semanas|f; ha=hectárea|hectáreas|f; t=tonelada|toneladas|f;
    dB=decibelio|decibelios; px=píxel|píxeles; mi=milla|millas|f; lb=libra|libras|f;
    CV=caballo|caballos`,
  currencies: `
    € EUR=euro|euros+céntimo|céntimos; euro euros=euro|euros;
    $ US$ USD=dólar|dólares+centavo|centavos; £ GBP=libra|libras|f+penique|peniques;
    CHF=franco suizo|francos suizos+céntimo|céntimos;
    MXN=peso mexicano|pesos mexicanos+centavo|centavos; ¥ JPY=yen|yenes; ₹ INR=rupia|rupias|f;
    kr SEK=corona|coronas|f; PLN=zloty|zlotys`,
  scales: {
    hundred: "cien",
    thousand: "mil",
    million: "mill\u00f3n|millones",
    billion: "mil millones|mil millones",
    trillion: "bill\u00f3n|billones",
  },
  powers: { 2: "{} cuadrado|{} cuadrados", 3: "{} c\u00fabico|{} c\u00fabicos" },
  timePowers: { 2: "{} al cuadrado|{} al cuadrado", 3: "{} al cubo|{} al cubo" },
  per: { "{}": "por {}" },
  andCents: " con ",
  link: (noun) => ` de ${noun}`,
  to: "a",
};

export const SPANISH: Language = {
  load: () => import("n2words/es-ES"),
  numbers: {
    minus: "menos",
    point: "coma",
    corrections: [[/dieciseis/g, "diecis\u00e9is"], [/cienta/g, "ciento"]],
    agreement: {
      masculine: [[/veintiuno$/, "veinti\u00fan"], [/\buno$/, "un"]],
      feminine: [[/veintiuno$/, "veintiuna"], [/\buno$/, "una"]],
    },
    ordinalAgreement: { feminine: [[/o\b/g, "a"]] },
  },
  createLexicon: (numbers) => new TableLexicon(LEXICON, numbers),
  amounts: {
    decimalSign: ",",
    scales: readScales({
      thousand: "mil",
      million: "mill\u00f3n millones M",
      trillion: "bill\u00f3n billones",
    }),
    codes: ["A", "B", "J", "V", "t"],
  },
  dates: { months: readMonths("es"), link: "del?", dayMark: "[\u00ba\u00b0]", order: "day-month" },
  times: { suffix: String.raw`h(?:oras|rs?)?\.?(?!\p{L})`, letter: "h" },
  abbreviations: {
    stopped: `
    Sr=señor; Sra=señora; Srta=señorita; Sres=señores; Dr=doctor; Dra=doctora; Prof=profesor;
    Ud=usted; Uds=ustedes; EE. UU=Estados Unidos; EE.UU=Estados Unidos; Av=avenida; Avda=avenida;
    p. ej=por ejemplo; a. C=antes de Cristo; d. C=después de Cristo; a. m=a eme; p. m=pe eme;
    etc=etcétera; aprox=aproximadamente; tel=teléfono; Tel=Teléfono; máx=máximo; mín=mínimo;
    Sto=Santo; Sta=Santa`,
    counted: `
    núm=número; Núm=Número; pág=página; págs=páginas; cap=capítulo; art=artículo; fig=figura;
    vol=volumen; p=página`,
    plain: `
    n.º=número; N.º=Número; nº=número; vs=contra`,
  },
  signs: `
    +=más; ==igual a; <=menor que; >=mayor que; ≤=menor o igual que; ≥=mayor o igual que;
    ≈=aproximadamente; ±=más menos; ×=por; ÷=entre; &=y; @=arroba; %=por ciento; €=euros; §=párrafo`,
  address: `
    .=punto; @=arroba; /=barra; \\=barra invertida; :=dos puntos; -=guion; _=guion bajo;
    ?=interrogación; ==igual; #=almohadilla; &=y; +=más; ~=tilde`,
  to: "a",
  versus: "a",
  ordinals: [
    {
      pattern: /(?<=\b[sS]iglo )([IVX]+)()(?!\p{L})/uy,
      say: (numeral, _, __, { numbers }) => numbers.cardinal(parseRoman(numeral)),
    },
    {
      pattern: /(?<![\p{L}\d.,])(\d+)\.?(er)(?![\p{L}\d])/uy,
      say: (digits, _, __, { numbers }) => numbers.ordinal(digits).replace(/o$/, ""),
    },
    {
      pattern: /(?<![\p{L}\d.,])(\d+)\.?([\u00ba\u00aa]|[oa](?=\s))(?!C)/uy,
      say: (digits, mark, _, { numbers }) =>
        numbers.ordinal(digits, /[\u00aaa]/.test(mark) ? "feminine" : "masculine"),
    },
  ],
  sayDate: dayMonthYear({ locale: "es", link: " de ", to: "al", hasOrdinalFirst: false }),
  sayTime: feminineHour("y"),
  sayFraction: ({ whole, numerator, denominator }, { after }, { numbers }) => {
    const say = (number: number) => numbers.cardinal(String(number), "masculine");
    const some = whole === undefined ? "" : `${say(whole)} y `;
    const names: Readonly<Record<number, string>> = { 2: "medio", 3: "tercio", 8: "octavo" };
    const part = names[denominator] ?? numbers.ordinal(String(denominator));
    if (denominator === 2 && numerator === 1) {
      return `${some}${/^ \p{L}+a(?!\p{L})/u.test(after) ? "media" : "medio"}`;
    }
    return `${some}${say(numerator)} ${part}${numerator > 1 ? "s" : ""}`;
  },
};
