/**
 * English units, currencies and abbreviations.
 *
 * @module
 */
import type { Abbreviations } from "../abbreviation_rules.ts";
import type { LexiconData } from "../lexicon.ts";

export const ENGLISH_LEXICON: LexiconData = {
  locale: "en",
  prefixes: "nano micro milli centi deci hecto kilo mega giga tera peta",
  bases: `
    m=nµmcdk meter|meters; g=nµmk gram|grams; l=µmcd liter|liters; L=µmcd liter|liters;
    s=nµm second|seconds; B=kMGTP byte|bytes; b=kMG bit|bits; bit=kMG bit|bits;
    bps=kMGT bit per second|bits per second; W=mkMGT watt|watts; Wh=kMGT watt hour|watt hours;
    V=µmk volt|volts; A=µmk amp|amps; Ah=mk amp hour|amp hours; Hz=kMGT hertz; J=kM joule|joules;
    N=k newton|newtons; Pa=hkMG pascal|pascals; cal=k calorie|calories; mol=m mole|moles`,
  units: `
    in=inch|inches; ft=foot|feet; yd yds=yard|yards; cu_ft=cubic foot|cubic feet; cu_in=cubic inch|cubic inches;
    cu_m=cubic meter|cubic meters; cu_yd=cubic yard|cubic yards; mi=mile|miles;
    kph kmh=kilometer per hour|kilometers per hour; mph=mile per hour|miles per hour;
    mpg=mile per gallon|miles per gallon; lb lbs=pound|pounds;
    lb-ft ft-lb ft-lbs=pound foot|pound feet; oz=ounce|ounces; fl_oz=fluid ounce|fluid ounces;
    gal=gallon|gallons; qt=quart|quarts; tsp=teaspoon|teaspoons; tbsp Tbsp=tablespoon|tablespoons;
    ha=hectare|hectares; sq_ft=square foot|square feet; sq_mi=square mile|square miles;
    sq_m=square meter|square meters; sq_km=square kilometer|square kilometers; KB=kilobyte|kilobytes;
    KiB=kibibyte|kibibytes; MiB=mebibyte|mebibytes; GiB=gibibyte|gibibytes; TiB=tebibyte|tebibytes;
    MP Mpx=megapixel|megapixels; px=pixel|pixels; req/s=request per second|requests per second;
    tok/s=token per second|tokens per second; ops/s=operation per second|operations per second;
    fps=frame per second|frames per second; rpm=revolution per minute|revolutions per minute;
    bpm=beat per minute|beats per minute; dpi=dot per inch|dots per inch; sec secs=second|seconds;
    min mins=minute|minutes; h hr hrs=hour|hours; d=day|days; wk wks=week|weeks; mos=month|months; pt=pint|pints; yr yrs=year|years;
    dB=decibel|decibels; hp=horsepower; psi=pound per square inch|pounds per square inch;
    ppm=part per million|parts per million; mmHg mm_Hg=millimeter of mercury|millimeters of mercury;
    Ω Ω=ohm|ohms; kΩ kΩ=kilohm|kilohms; °C °_C ℃=degree Celsius|degrees Celsius;
    °F °_F ℉=degree Fahrenheit|degrees Fahrenheit; °N °_N=degree north|degrees north;
    °S °_S=degree south|degrees south; °E °_E=degree east|degrees east;
    °W °_W=degree west|degrees west; °=degree|degrees; %=percent; ‰=per mille; ¢=cent|cents;
    L/100_km l/100_km=liter per 100 kilometers|liters per 100 kilometers`,
  currencies: `
    $=dollar|dollars+cent|cents; US$ USD=US dollar|US dollars+cent|cents;
    C$ CA$ CAD=Canadian dollar|Canadian dollars+cent|cents;
    A$ AU$ AUD=Australian dollar|Australian dollars+cent|cents;
    NZ$ NZD=New Zealand dollar|New Zealand dollars+cent|cents;
    HK$ HKD=Hong Kong dollar|Hong Kong dollars+cent|cents;
    SGD=Singapore dollar|Singapore dollars+cent|cents; € EUR=euro|euros+cent|cents;
    £ GBP=pound|pounds+penny|pence; ¥ JPY=yen; CNY=yuan; ₹ INR Rs. Rs=rupee|rupees+paisa|paise;
    CHF=Swiss franc|Swiss francs+centime|centimes; SEK=Swedish krona|Swedish kronor;
    NOK=Norwegian krone|Norwegian kroner; DKK=Danish krone|Danish kroner; PLN=zloty|zlotys;
    CZK=Czech koruna|Czech korunas; MXN=Mexican peso|Mexican pesos;
    R$ BRL=real|reais+centavo|centavos; ZAR=rand+cent|cents; ₩ KRW=won; ₽ RUB=ruble|rubles;
    ₺ TRY=lira; ₴ UAH=hryvnia|hryvnias; ₪ ILS=shekel|shekels; ₫ VND=dong; ₿ BTC=bitcoin|bitcoins`,
  scales: {
    hundred: "hundred",
    thousand: "thousand",
    million: "million",
    billion: "billion",
    trillion: "trillion",
  },
  powers: { 2: "square {}", 3: "cubic {}" },
  timePowers: { 2: "{} squared", 3: "{} cubed" },
  per: { "{}": "per {}" },
  periods: { mo: "month", mth: "month", pp: "person", ea: "each" },
  andCents: " and ",
  saysCents: true,
  to: "to",
};

export const ENGLISH_ABBREVIATIONS: Abbreviations = {
  stopped: `
    Mr=Mister; Mrs=Missus; Ms=Miz; Prof=Professor; Gen=General; Col=Colonel; Sgt=Sergeant;
    Lt=Lieutenant; Capt=Captain; Cpl=Corporal; Maj=Major; Sen=Senator; Rep=Representative;
    Gov=Governor; Rev=Reverend; Hon=Honorable; Jr=Junior; Sr=Senior; Esq=Esquire; Mt=Mount; Ft=Fort;
    Ave=Avenue; Blvd=Boulevard; Rd=Road; Ln=Lane; Hwy=Highway; Inc=Incorporated; Ltd=Limited;
    Corp=Corporation; Co=Company; Bros=Brothers; Dept=Department; Univ=University;
    approx=approximately; esp=especially; incl=including; etc=et cetera; vs=versus; M. Sc=M S C;
    B. Sc=B S C; a. k. a=also known as; et al=et al; viz=namely; cf=compare; govt=government; tel=telephone;
    temp=temperature; appt=appointment`,
  counted: `
    p=page; pp=pages; ch=chapter; Ch=Chapter; sec=section; Sec=Section; eq=equation; Eq=Equation;
    eqs=equations; art=article; Art=Article; Fig=Figure; fig=figure; Figs=Figures; figs=figures;
    Vol=Volume; vol=volume; No=Number; Nos=Numbers; nos=numbers; ext=extension; Ext=Extension;
    tel=telephone; chap=chapter; Chap=Chapter; Tel=Telephone; Apt=Apartment; apt=apartment; Ste=Suite; Rm=Room; Bldg=Building; bldg=building; Fl=Floor; min=minimum;
    max=maximum; ca=circa; c=circa; ver=version; ed=edition;
    est=established; Op=Opus; op=opus`,
  plain: `
    c/o=care of; b/c=because; b/w=between; w/o=without; n/a=not applicable; N/A=not applicable; and/or=and or;
    et al=et al; Ctrl=Control; Cmd=Command; WWII=World War two; WWI=World War one`,
};
