import assert from "node:assert/strict";
import { ALL_LANGUAGES, detectsLanguage, readLanguage } from "../../../src/media/languages.ts";
import { findLanguageToken, toLanguages } from "../../../src/models/asr/whisper_config.ts";

/** Whisper's languages in the order of its tokens, from openai/whisper's `tokenizer.py`. */
const WHISPER =
  ("en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da " +
    "hu ta no th ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk " +
    "sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo " +
    "tl mg as tt haw ln ha ba jw su yue").split(" ");

Deno.test("readLanguage() accepts common spellings of a language", () => {
  const spellings: Readonly<Record<string, readonly string[]>> = {
    en: ["en", "EN", " en ", "en-US", "en_US", "en-us", "eng", "English", "ENGLISH"],
    de: ["de-AT", "deu", "ger", "German", "Deutsch"],
    fr: ["fra", "fre", "French", "français"],
    zh: ["zh-CN", "zh-Hans", "zh_TW", "cmn", "chi", "zho", "Chinese", "Mandarin", "中文"],
    yue: ["yue", "zh-yue", "Cantonese"],
    fil: ["fil", "tl", "tgl", "Filipino", "Tagalog"],
    he: ["iw", "heb", "Hebrew"],
    no: ["nb", "nor", "nb-NO", "Norwegian"],
    jv: ["jw", "jav", "Javanese"],
    my: ["mya", "bur", "Burmese", "Myanmar"],
    uk: ["uk", "ukr", "Ukrainian"],
    pt: ["pt-BR", "Portuguese", "português"],
    haw: ["haw", "Hawaiian"],
  };
  for (const [code, texts] of Object.entries(spellings)) {
    for (const text of texts) assert.equal(readLanguage(text), code, text);
  }
  for (const text of ["xx", "Klingon", "e", "english!", "__proto__", "constructor", "-", "en US"]) {
    assert.equal(readLanguage(text), undefined, text);
  }
  for (const code of WHISPER) assert.ok(readLanguage(code) !== undefined, code);
  for (const text of ["", " ", "auto", "AUTO", "detect", "None"]) assert.ok(detectsLanguage(text));
});

Deno.test("toLanguages() lists each of Whisper's languages, by the API's code", () => {
  const languages = new Map(WHISPER.map((code, index) => [code, index]));
  const config = { languages };
  const codes = toLanguages(config);
  assert.equal(codes.length, WHISPER.length);
  assert.deepEqual(
    new Set(codes.map((code) => findLanguageToken(config, code))),
    new Set(WHISPER.keys()),
  );
  assert.ok(codes.every((code) => code in ALL_LANGUAGES));
});
