import assert from "node:assert/strict";
import { loadWriter } from "../../../src/spoken/write_out.ts";

/** Written, and said, by language. */
const CASES: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  ar: [
    ["5 %", "خمسة بالمائة"],
    ["20 كم", "عشرون كيلومترًا"],
  ],
  de: [
    ["um 14:30 Uhr", "um vierzehn Uhr dreißig"],
    ["um 8:00 und 9.05 Uhr", "um acht Uhr und neun Uhr fünf"],
    ["um 1 Uhr", "um ein Uhr"],
    ["14:30-15:45", "vierzehn Uhr dreißig bis fünfzehn Uhr fünfundvierzig"],
    ["5 % oder 3,5%", "fünf Prozent oder drei Komma fünf Prozent"],
    ["1.234,56 €", "eintausendzweihundertvierunddreißig Euro sechsundfünfzig"],
    ["€5,50 und 3,00 €", "fünf Euro fünfzig und drei Euro"],
    ["$5, £20 und 1 £", "fünf Dollar, zwanzig Pfund und ein Pfund"],
    ["2 €/kg und 18 €/Monat", "zwei Euro pro Kilogramm und achtzehn Euro pro Monat"],
    ["9-17 Uhr", "neun bis siebzehn Uhr"],
    ["3 Mio. €", "drei Millionen Euro"],
    ["-5 °C und 20° C", "minus fünf Grad Celsius und zwanzig Grad Celsius"],
    ["mit 100 km/h", "mit einhundert Kilometer pro Stunde"],
    ["1 km, 1 h und 1 kg", "ein Kilometer, eine Stunde und ein Kilogramm"],
    ["5 mg/l und 1 mg", "fünf Milligramm pro Liter und ein Milligramm"],
    ["10-20 km", "zehn bis zwanzig Kilometer"],
    ["5 m² und 2 m³", "fünf Quadratmeter und zwei Kubikmeter"],
    ["am 15.03.2024", "am fünfzehnten März zweitausendvierundzwanzig"],
    ["Der 1. Mai", "Der erste Mai"],
    ["3. Oktober 1990", "dritter Oktober neunzehnhundertneunzig"],
    ["die 3. Auflage im 21. Jahrhundert", "die dritte Auflage im einundzwanzigsten Jahrhundert"],
    ["in der 3. Auflage", "in der dritten Auflage"],
    ["im Jahr 1984", "im Jahr neunzehnhundertvierundachtzig"],
    ["Tel. 030-12", "Tel. null drei null-zwölf"],
    ["Es waren 3. Dann 4.", "Es waren drei. Dann vier."],
    ["1.000.000 Menschen", "eine Million Menschen"],
    [
      "1 Stunde, 1 Tag, 21 Jahre und 1 Euro",
      "eine Stunde, ein Tag, einundzwanzig Jahre und ein Euro",
    ],
    ["10 000 bei -5 (\u22122), 3-4", "zehntausend bei minus fünf (minus zwei), drei bis vier"],
    ["1.500 und -0,5", "eintausendfünfhundert und minus null Komma fünf"],
  ],
  es: [
    ["a las 14:30", "a las catorce y treinta"],
    ["a la 1:00", "a la una"],
    ["a las 9:05 h", "a las nueve y cinco"],
    ["5 %", "cinco por ciento"],
    ["5,50 €", "cinco euros con cincuenta"],
    ["$1 y £21", "un dólar y veintiuna libras"],
    ["1.000.000 €", "un millón de euros"],
    ["100 km/h", "cien kilómetros por hora"],
    ["21 km y 1 h", "veintiún kilómetros y una hora"],
    ["2,5 kg", "dos coma cinco kilogramos"],
    ["-5 °C", "menos cinco grados Celsius"],
    ["50 m²", "cincuenta metros cuadrados"],
    ["el 15/03/2024", "el quince de marzo de dos mil veinticuatro"],
    ["el 3.er piso, la 2.ª vez", "el tercer piso, la segunda vez"],
    ["16", "dieciséis"],
    ["1 año y 21 semanas", "un año y veintiuna semanas"],
  ],
  fr: [
    ["à 14h30", "à quatorze heures trente"],
    ["à 8:00 et 1 h", "à huit heures et une heure"],
    ["dans 1 h 30 min", "dans une heure trente minutes"],
    ["5 %", "cinq pour cent"],
    ["1 234,56 €", "mille deux cent trente-quatre euros cinquante-six"],
    ["1 000 000 €", "un million d'euros"],
    ["$5 et 1 £", "cinq dollars et une livre"],
    ["100 km/h", "cent kilomètres par heure"],
    ["21 min", "vingt et une minutes"],
    ["-5 °C", "moins cinq degrés Celsius"],
    ["5 mg", "cinq milligrammes"],
    ["01 23 45", "zéro un vingt-trois quarante-cinq"],
    ["5 m²", "cinq mètres carrés"],
    ["le 01/05/2024", "le premier mai deux mille vingt-quatre"],
    ["le 1er mai, la 2e fois", "le premier mai, la deuxième fois"],
    ["Les 3 m'ont dit", "Les trois m'ont dit"],
  ],
  hi: [
    ["5%", "पाँच प्रतिशत"],
    ["10 km", "दस किलोमीटर"],
    ["5:00 बजे", "पाँच बजे"],
    ["15/03/2024", "पंद्रह मार्च दो हज़ार चौबीस"],
    ["2.05", "दो दशमलव शून्य पाँच"],
  ],
  it: [
    ["alle 14:30", "alle quattordici e trenta"],
    ["alle 9.15", "alle nove e quindici"],
    ["5,50 €", "cinque euro e cinquanta"],
    ["1 km in 1 h", "un chilometro in una ora"],
    ["100 km/h", "cento chilometri orari"],
    ["1.000.000 €", "un milione di euro"],
    ["-5 °C", "meno cinque gradi Celsius"],
    ["01/05/2024", "primo maggio duemilaventiquattro"],
    ["il 1º giorno, la 2ª volta", "il primo giorno, la seconda volta"],
  ],
  ko: [
    ["2:30", "두 시 삼십 분"],
    ["5%", "오 퍼센트"],
    ["100km/h", "시속 백킬로미터"],
    ["2024-06-15", "이천이십사년 유월 십오일"],
    ["3.14", "삼 점 일 사"],
  ],
  nl: [
    ["om 14:30 uur", "om veertien uur dertig"],
    ["om 8 uur", "om acht uur"],
    ["5,50 €", "vijf euro vijftig"],
    ["20°", "twintig graden"],
    ["100 km/h", "honderd kilometer per uur"],
    ["10-20 km", "tien tot twintig kilometer"],
    ["15-03-2024", "vijftien maart tweeduizend vierentwintig"],
    ["de 1e en 2de", "de eerste en tweede"],
    ["5 m²", "vijf vierkante meter"],
  ],
  pl: [
    ["o 14:30", "o czternastej trzydzieści"],
    ["14:30", "czternasta trzydzieści"],
    ["2 km, 5 km i 22 min", "dwa kilometry, pięć kilometrów i dwadzieścia dwie minuty"],
    ["1,5 km", "jeden przecinek pięć kilometra"],
    ["2 mg i 5 mg", "dwa miligramy i pięć miligramów"],
    ["5 zł", "pięć złotych"],
    ["15 marca 2024 roku", "piętnastego marca dwa tysiące dwudziestego czwartego roku"],
    ["w 2024 roku", "w dwa tysiące dwudziestym czwartym roku"],
  ],
  pt: [
    ["às 14:30", "às catorze e trinta"],
    ["às 2h", "às duas horas"],
    ["5%", "cinco por cento"],
    ["100 km/h", "cem quilômetros por hora"],
    ["2 h e 1 km", "duas horas e um quilômetro"],
    ["-5 °C", "menos cinco graus Celsius"],
    ["1º de maio de 2024", "primeiro de maio de dois mil e vinte e quatro"],
    ["a 2ª vez", "a segunda vez"],
    ["16", "dezesseis"],
  ],
  ru: [
    ["в 14:30", "в четырнадцать часов тридцать минут"],
    ["1 %, 2 % и 5 %", "один процент, два процента и пять процентов"],
    ["21 минута, 2 мин", "двадцать одна минута, две минуты"],
    ["$5 и 21 ₽", "пять долларов и двадцать один рубль"],
    ["100 км/ч", "сто километров в час"],
    ["2 мг и 5 mg", "два миллиграмма и пять миллиграмм"],
    ["1,5 кг", "один запятая пять килограмма"],
    ["15.03.2024", "пятнадцатого марта две тысячи двадцать четвёртого года"],
    ["в 2003 году", "в две тысячи третьем году"],
    ["US$5", "пять долларов США"],
    ["3-й и 5-го", "третий и пятого"],
    ["Один из 10 с трудом", "Один из десять с трудом"],
  ],
  sv: [
    ["kl. 14.30", "klockan fjorton trettio"],
    ["1 km, 1 kg och 21 min", "en kilometer, ett kilogram och tjugoen minuter"],
    ["5 %", "fem procent"],
    ["den 3 maj 1984", "den tredje maj nittonhundraåttiofyra"],
    ["1:a och 2:a", "första och andra"],
  ],
  tr: [
    ["%5", "yüzde beş"],
    ["14:30", "on dört otuz"],
    ["100 km/h", "saatte yüz kilometre"],
    ["5 m²", "beş metrekare"],
    ["15.03.2024", "on beş Mart iki bin yirmi dört"],
  ],
  uk: [
    ["о 14:30", "о чотирнадцятій тридцять"],
    ["8 %", "вісім відсотків"],
    ["2 км", "два кілометри"],
    ["15 березня 2024 року", "п'ятнадцятого березня дві тисячі двадцять четвертого року"],
  ],
  vi: [
    ["14h30", "mười bốn giờ ba mươi phút"],
    ["5%", "năm phần trăm"],
    ["5 m²", "năm mét vuông"],
    ["2024", "hai nghìn không trăm hai mươi bốn"],
  ],
};

for (const [language, cases] of Object.entries(CASES)) {
  Deno.test(`loadWriter() writes out ${language}`, async () => {
    const write = await loadWriter(language);
    assert.ok(write);
    for (const [written, said] of cases) assert.equal(write(written), said);
  });
}

Deno.test("loadWriter() leaves what is no time, date or unit to the plain numbers", async () => {
  const write = (await loadWriter("de"))!;
  const cases = [
    ["12:30:45", "zwölf:dreißig:fünfundvierzig"],
    ["32.13.2024", "zweiunddreißig dreizehn zweitausendvierundzwanzig"],
    ["30.02.2024", "dreißig zwei zweitausendvierundzwanzig"],
    ["5 mal 3", "fünf mal drei"],
    ["3-1", "drei-eins"],
    ["5 km/h²", "fünf km/h²"],
    ["Version 2.10.3", "Version zwei zehn drei"],
  ] as const;
  for (const [written, said] of cases) assert.equal(write(written), said);
});

Deno.test("loadWriter() has no rules for a language whose numbers it does not know", async () => {
  assert.equal(await loadWriter("xx"), undefined);
  assert.equal(await loadWriter("ja"), undefined);
});

Deno.test("loadWriter() leaves no figure of a time, a day or a number with a unit", async () => {
  const minutes = Array.from({ length: 60 }, (_, minute) => String(minute).padStart(2, "0"));
  const times = Array.from(
    { length: 24 },
    (_, hour) => minutes.map((minute) => `${hour}:${minute}`),
  );
  const days = Array.from({ length: 31 }, (_, day) => `${day + 1}.${day % 12 + 1}.2024`);
  const units = ["km", "km/h", "m\u00b2", "%", "\u00b0C", "kB", "$", "\u20ac/kg", "EUR"]
    .flatMap((unit) => ["0", "1", "2", "2,50", "-1"].map((number) => `${number} ${unit}`));
  for (const language of Object.keys(CASES)) {
    const write = (await loadWriter(language))!;
    for (const text of [...times.flat(), ...days, ...units]) {
      assert.doesNotMatch(write(text), /\d|undefined/, `${language}: ${text}`);
    }
  }
});
