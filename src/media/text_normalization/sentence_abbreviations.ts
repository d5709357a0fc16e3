/**
 * Where a full stop does not end a sentence although a capital follows, by language.
 *
 * @module
 */

const toSet = (words: string): ReadonlySet<string> => new Set(words.split(" "));

/** In lower case, without their last full stop. Single letters, initials, need not be here. */
const ABBREVIATIONS: Readonly<Record<string, ReadonlySet<string>>> = {
  de: toSet(
    "abb abs aufl bd bsp bspw bzw ca dipl dr evtl fam fr geb gest ggf hl hr hrsg ing inkl feb apr aug sept sep " +
      "okt nov dez jh kap mio mrd nr prof sog st std str tel tsd vgl zzgl",
  ),
  en: toSet(
    "mr mrs ms dr prof st mt gen col sgt lt capt cpl maj adm rep sen gov hon rev fr sr fig figs no nos vol vols " +
      "pp eq eqs ch sec art ed eds trans cf vs approx ca est ext max min p jan feb mar apr jun jul aug sept sep oct nov dec " +
      "mon tue tues wed thu thur thurs fri e.g i.e maj cpl ft apt ste rm tel b.i.d al",
  ),
  es: toSet(
    "aprox art av avda cap dr dra dras dres ee ej fig ing lic núm pág págs prof profa sr sra sras sres srta sta sto tel " +
      "ud uds vol p.ej",
  ),
  fr: toSet(
    "av bd chap dr env fig janv févr avr juil sept oct nov déc me mlle mm mme mmes mgr pp pr prof réf st ste tél",
  ),
  it: toSet(
    "art avv cap ca dott dr es fig ing nn pag pagg prof rag sig sigg tel vol",
  ),
  nl: toSet(
    "art bijv blz ca dhr dl dr drs fam fig gem ing ir jl mevr mr mw nr prof resp st str tel vgl feb mrt apr jun " +
      "jul aug sept okt nov dec",
  ),
  pl: toSet(
    "al bł dr godz hab im inż mgr min np nr os pkt płk prof rozdz rys str św tel tj tys tzn tzw ul zob",
  ),
  pt: toSet(
    "art av cap dr dra ex fig núm pág págs prof profa sr sra sras srs srta sta sto tel vol",
  ),
  ru: toSet("акад гл гр им илл напр обл пер пл пр просп проф рис св см стр тел ул"),
  sv: toSet("bl ca dir dr fig fr hr jfr kap kl nr prof resp st tel vol bl.a d.v.s t.ex"),
  tr: toSet("av bkz cad dr gen mah ord örn prof sn sok tel yrd"),
  uk: toSet("акад вул гр грн див ім напр обл пл просп проф рис св стор тел"),
};

/** Abbreviations that a sentence may well end in, in lower case; beside them, letters with full stops: U.S., p.m. */
const MAY_END: Readonly<Record<string, ReadonlySet<string>>> = {
  en: toSet(
    "ave blvd rd ln hwy st dr inc ltd corp co bros jr sr esq etc dept univ ft apt ste al tues thurs",
  ),
};
/** First words of sentences that are hardly ever names. */
const STARTERS: Readonly<Record<string, ReadonlySet<string>>> = {
  en: toSet(
    "a after all also an and are as at because before but by can could did do does for from had has have he her here " +
      "his how however i if in is it its let many may most my no not now of on once one or our please she should since so " +
      "some that the their then there these they this those to was we were what when where which while who why will with " +
      "would yes yet you your",
  ),
};

/** German streets: Hauptstr. */
const STREET = /\p{L}str$/u;

/** Whether the full stop behind a word, in lower case, is part of it rather than the end of a sentence. */
export function isAbbreviation(word: string, next: string, language: string): boolean {
  const known = ABBREVIATIONS[language] ?? ABBREVIATIONS["en"]!;
  if (language === "de" && STREET.test(word)) return true;
  const isInitials = /^\p{L}(?:\.\p{L})+$/u.test(word);
  const mayEnd = MAY_END[language]?.has(word) || isInitials && !known.has(word);
  const first = /^["'(\[\u201c\u2018]*([\p{L}']+)/u.exec(next)?.[1]?.toLowerCase() ?? "";
  if (mayEnd && (STARTERS[language] ?? STARTERS["en"]!).has(first)) return false;
  return isInitials || known.has(word) || mayEnd === true;
}

/** Ordinals with a full stop: the end of a sentence, a stroke, and the beginning of the next. */
const ORDINALS: Readonly<Record<string, RegExp>> = {
  de: new RegExp(
    String
      .raw`(?<!\p{L})(?:am|im|vom|zum|zur|beim|de[rmns]|die|das|diese[rmns]?|jede[rmns]?|bis|seit|ab)\s\d{1,3}\.\s*\|` +
      String
        .raw`|(?<!\d)\d{1,2}\.\s*\|(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jahrhunderts?|Jh|Auflage|Klasse|Stock|Platz|Kapitel|Geburtstag)\b`,
    "iu",
  ),
};

/** Whether a full stop between two stretches of text belongs to an ordinal number: `am 3. Mai`. */
export function isOrdinal(before: string, after: string, language: string): boolean {
  return ORDINALS[language]?.test(`${before}|${after}`) ?? false;
}
