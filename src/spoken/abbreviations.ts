/**
 * Where a full stop does not end a sentence although a capital follows, by language.
 *
 * @module
 */

const setOf = (words: string): ReadonlySet<string> => new Set(words.split(" "));

/** In lower case, without their last full stop. Single letters, initials, need not be here. */
const ABBREVIATIONS: Readonly<Record<string, ReadonlySet<string>>> = {
  de: setOf(
    "abb abs aufl bd bsp bspw bzw ca dipl dr evtl fam fr geb gest ggf hl hr hrsg ing inkl feb apr aug sept sep " +
      "okt nov dez jh kap mio mrd nr prof sog st std str tel tsd vgl zzgl",
  ),
  en: setOf(
    "mr mrs ms dr prof st mt gen col sgt lt capt cpl maj adm rep sen gov hon rev fr sr fig figs no nos vol vols " +
      "pp eq ch sec art ed eds trans cf vs approx ca est ext max min p ch jan feb mar apr jun jul aug sept sep oct nov dec " +
      "mon tue tues wed thu thur thurs fri e.g i.e",
  ),
  es: setOf(
    "aprox art av avda cap dr dra dras dres ee ej fig ing lic núm pág págs prof profa sr sra sras sres srta sta sto tel " +
      "ud uds vol p.ej",
  ),
  fr: setOf(
    "av bd chap dr env fig janv févr avr juil sept oct nov déc me mlle mm mme mmes mgr pp pr prof réf st ste tél",
  ),
  it: setOf(
    "art avv cap ca dott dr es fig ing nn pag pagg prof rag sig sigg tel vol",
  ),
  nl: setOf(
    "art bijv blz ca dhr dl dr drs fam fig gem ing ir jl mevr mr mw nr prof resp st str tel vgl feb mrt apr jun " +
      "jul aug sept okt nov dec",
  ),
  pl: setOf(
    "al bł dr godz hab im inż mgr min np nr os pkt płk prof rozdz rys str św tel tj tys tzn tzw ul zob",
  ),
  pt: setOf(
    "art av cap dr dra ex fig núm pág págs prof profa sr sra sras srs srta sta sto tel vol",
  ),
  ru: setOf("акад гл гр им илл напр обл пер пл пр просп проф рис св см стр тел ул"),
  sv: setOf("bl ca dir dr fig fr hr jfr kap kl nr prof resp st tel vol bl.a d.v.s t.ex"),
  tr: setOf("av bkz cad dr gen mah ord örn prof sn sok tel yrd"),
  uk: setOf("акад вул гр грн див ім напр обл пл просп проф рис св стор тел"),
};

/** The abbreviations of a language; those of English where they are not known. */
export function abbreviationsOf(language: string): ReadonlySet<string> {
  return ABBREVIATIONS[language] ?? ABBREVIATIONS["en"]!;
}

/** Ordinals with a full stop: the end of a sentence, a stroke, and the beginning of the next. */
const ORDINALS: Readonly<Record<string, RegExp>> = {
  de: new RegExp(
    String
      .raw`(?<!\p{L})(?:am|im|vom|zum|zur|beim|de[rmns]|die|das|diese[rmns]?|jede[rmns]?|bis|seit|ab)\s\d{1,3}\.\s*\|` +
      String
        .raw`|(?<!\d)\d{1,2}\.\s*\|(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b`,
    "iu",
  ),
};

/** Whether a full stop between two stretches of text belongs to an ordinal number: `am 3. Mai`. */
export function isOrdinal(before: string, after: string, language: string): boolean {
  return ORDINALS[language]?.test(`${before}|${after}`) ?? false;
}
