/**
 * Texts that tokenizers often handle incorrectly.
 *
 * @module
 */
import { Random } from "../../unit/engine/random.ts";

/**
 * Spaces before punctuation that are cleaned up, code, contractions, digits, scripts, joined emoji, literal special
 * tokens.
 */
const WRITTEN: readonly string[] = [
  ...["", " ", "  ", "\t", "\n", "\r\n", " \n ", "\n\n\n", "\u00a0", "\u3000", "\u2028", "\u0085"],
  ...[
    "\ufeff",
    "a\ufeffb",
    "\ufeff\ufeff中",
    "\u200b",
    "\u200d",
    "\u00ad",
    "\u2060",
    "\ufffd",
    "\0",
  ],
  ...[
    "git add . && cd .. && ls ./src",
    "a != b ? c : d",
    "x , y",
    "do n't",
    "it 's",
    "we 've",
    "' '",
  ],
  ...["if (a ! == b) { return ; }", " . ", " ?", "!! !", "I 'm sure , they 're", "what 's this ?"],
  ...[
    "def f(x):\n    return x\n",
    "\tif x:\n\t\tpass",
    "        eight",
    "for (;;) {\n  i++ ;\n}\n",
  ],
  ...["I'll", "WE'VE", "it’s", "'S", "'ſ", "rock'n'roll", "O'Neill's", "''''", "`code`", '"q"'],
  ...["1", "12", "123", "1234", "12345678", "3.14", "1e-7", "1,000,000", "٣٤٥", "१२३", "１２３"],
  ...["²³", "½", "①②", "Ⅷ", "㉈", "x²", "a½b", "𝟘𝟙", "৪৫", "〇一二", "1st", "v1.2.3-rc.4"],
  ...["ΣΊΣΥΦΟΣ", "ὈΔΥΣΣΕΎΣ", "ΑΣ ", "Σ", "İstanbul", "ıI", "ẞ", "straße", "ﬃ", "Ǆǅǆ", "K", "Å"],
  ...[
    "中文",
    "日本語テキスト",
    "𩸽",
    "𠜎𠜱x",
    "a𩸽b",
    "漢字かな交じり文",
    "ｱｲｳ",
    "ㇰ",
    "한국어",
    "각",
  ],
  ...["москва", "Київ", "שלום", "مرحبا بالعالم", "हिन्दी", "বাংলা", "ไทย", "ភាសាខ្មែរ", "አማርኛ", "Հայ"],
  ...["Tiếng Việt", "façade", "e\u0301", "Z͑ͫ̓ạͣl͈g̡o̯", "ệ", "ﷺ", "ཱི", "𞤀𞤣", "𝒳", "𝕳𝖎"],
  ...["😀", "😀😀 😀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇫🇷🇩🇪", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "☃️", "🧿 x"],
  ...["https://example.org/a?b=c&d=%20#e", "C:\\path\\x", "snake_case", "PascalCaseHTTPServer"],
  ...["<s>", "</s>", "<unk>", "[CLS] a [SEP]", "<|im_start|>user", "<|eot_id|>", "<｜fim▁hole｜>"],
  ...["<0x41>", "<0x0A>", "▁a", "▁▁", "Ġa", "##ing", "a▁b", "<|endoftext|><|endoftext|>", " <s> a"],
  ...["....", "......", "---", "=====", "?!?!", "“quoted”", "«q»", "…", "·", "€5", "™", "∑∫", "→"],
  ...["\u001b[31mred\u001b[0m", "\u0007", "\u007f", "\ue000", "\u{10ffff}", "͸", "a\fb", "\u000b"],
];

const FRAGMENTS = [
  ...[" ", "  ", "\n", "\t", "a", "B", "the", "é", "ß", "Σ", "中", "𩸽", "😀", "👍🏽", "ि", "\u0301"],
  ...[
    "1",
    "²",
    "٣",
    ".",
    " .",
    ",",
    "'",
    "'s",
    " n't",
    "!",
    "?",
    "-",
    "_",
    "(",
    '"',
    "<",
    ">",
    "▁",
  ],
  ...["\ufeff", "\u200d", "\u00a0", "한", "ท", "م", "X", "https://", "==", "\\", "/", "{}", "\r"],
];

/** 400 texts: those in this file, and others composed of similar parts. */
export function oddStrings(): readonly string[] {
  const random = new Random(32);
  const made = Array.from(
    { length: 400 - WRITTEN.length },
    () => Array.from({ length: random.between(2, 14) }, () => random.pick(FRAGMENTS)).join(""),
  );
  return [...WRITTEN, ...made];
}
