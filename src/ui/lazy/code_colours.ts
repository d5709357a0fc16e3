/**
 * Highlights code. This is a bundle of its own, loaded when code is first shown.
 *
 * @module
 */
import hljs from "highlight.js/lib/common";
import awk from "highlight.js/lib/languages/awk";
import clojure from "highlight.js/lib/languages/clojure";
import cmake from "highlight.js/lib/languages/cmake";
import dart from "highlight.js/lib/languages/dart";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import dos from "highlight.js/lib/languages/dos";
import elixir from "highlight.js/lib/languages/elixir";
import erb from "highlight.js/lib/languages/erb";
import erlang from "highlight.js/lib/languages/erlang";
import fortran from "highlight.js/lib/languages/fortran";
import fsharp from "highlight.js/lib/languages/fsharp";
import glsl from "highlight.js/lib/languages/glsl";
import groovy from "highlight.js/lib/languages/groovy";
import haskell from "highlight.js/lib/languages/haskell";
import http from "highlight.js/lib/languages/http";
import julia from "highlight.js/lib/languages/julia";
import latex from "highlight.js/lib/languages/latex";
import matlab from "highlight.js/lib/languages/matlab";
import nginx from "highlight.js/lib/languages/nginx";
import nix from "highlight.js/lib/languages/nix";
import ocaml from "highlight.js/lib/languages/ocaml";
import powershell from "highlight.js/lib/languages/powershell";
import properties from "highlight.js/lib/languages/properties";
import protobuf from "highlight.js/lib/languages/protobuf";
import scala from "highlight.js/lib/languages/scala";
import scheme from "highlight.js/lib/languages/scheme";
import verilog from "highlight.js/lib/languages/verilog";
import vim from "highlight.js/lib/languages/vim";
import x86asm from "highlight.js/lib/languages/x86asm";

/** Languages in addition to highlight.js's selection of common ones. */
const LANGUAGES = {
  ...{ awk, clojure, cmake, dart, dockerfile, dos, elixir, erb, erlang, fortran, fsharp, glsl },
  ...{ groovy, haskell, http, julia, latex, matlab, nginx, nix, ocaml, powershell, properties },
  ...{ protobuf, scala, scheme, verilog, vim, x86asm },
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);
hljs.registerAliases(["jsonc", "json5"], { languageName: "json" });
hljs.registerAliases(["objective-c"], { languageName: "objectivec" });
hljs.registerAliases(["vue", "svelte"], { languageName: "xml" });

/** Longer code is not highlighted. */
const MAX_CHARACTERS = 50_000;

/** Converts code to HTML with a class for each kind of token; `undefined` for long code and unknown languages. */
export function colourCode(code: string, language: string): string | undefined {
  if (code.length > MAX_CHARACTERS || hljs.getLanguage(language) === undefined) return undefined;
  return hljs.highlight(code, { language, ignoreIllegals: true }).value;
}
