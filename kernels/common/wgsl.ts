/**
 * The declarations that shaders begin with, and the expansion of WGSL templates, which unrolls loops and selects parts
 * for a tiling that is known when the program is made.
 *
 * Deno's WebGPU (naga) adds a counter to each loop and a bounds check to each array access. So drivers do not unroll
 * loops, and arrays that a loop indexes are kept in memory. Shaders for graphics cards therefore have one variable per
 * element. Their sources are WGSL files with directives in comments:
 *
 * - `//# for n in 0..COUNT` … `//# end`: repeats the lines between, with `n` from 0 to `COUNT - 1`
 * - `//# for e, n in x 0, y 1` … `//# end`: repeats them for each pair in a list of names and whole numbers
 * - `//# if NAME` … `//# else` … `//# end`: keeps the lines if the value is not 0; with `!NAME`, if it is 0
 * - `//# part load` … `//# end` names lines, and `//# put load from next` inserts them, with `next` in place of `$from`
 * - `$name` and `$(n * COUNT + 1)` insert a value, or a whole number; a comparison `a < b` is 1 or 0
 *
 * @module
 */
import type { Elem } from "../../src/gpu/kernel.ts";
import fourSource from "./four.wgsl" with { type: "text" };

/** Values by name; a boolean is 1 or 0. */
export type Values = Readonly<Record<string, number | string | boolean>>;

/** A line, or a block of lines that are repeated or left out. */
type Part = string | Block;

/** A directive, and the lines up to its end if it has one. */
interface Block {
  readonly directive: string;
  readonly parts: readonly Part[];
  readonly otherwise: readonly Part[];
}

/** A shader template and its named parts. */
interface Template {
  readonly parts: readonly Part[];
  readonly named: ReadonlyMap<string, readonly Part[]>;
}

const DIRECTIVE = /^\s*\/\/# (.+)$/;
const templates = new Map<string, Template>();

/**
 * Expands a template.
 *
 * @throws {Error} when a directive or a name is unknown, which is an error in the template.
 */
export function expand(source: string, values: Values): string {
  let template = templates.get(source);
  if (template === undefined) templates.set(source, template = parse(source));
  return write(template.parts, values, template).join("\n");
}

function parse(source: string): Template {
  const open: { directive: string; parts: Part[]; otherwise: Part[]; isElse: boolean }[] = [];
  const begin = (directive: string) =>
    open.push({ directive, parts: [], otherwise: [], isElse: false });
  const add = (part: Part) => {
    const { isElse, parts, otherwise } = open.at(-1)!;
    (isElse ? otherwise : parts).push(part);
  };
  const named = new Map<string, readonly Part[]>();
  begin("all");
  for (const line of source.split("\n")) {
    const directive = DIRECTIVE.exec(line)?.[1];
    if (directive === undefined) add(line);
    else if (directive === "else") open.at(-1)!.isElse = true;
    else if (directive.startsWith("put ")) add({ directive, parts: [], otherwise: [] });
    else if (directive === "end") {
      const block = open.pop()!;
      if (block.directive.startsWith("part ")) named.set(block.directive.slice(5), block.parts);
      else add(block);
    } else begin(directive);
  }
  if (open.length !== 1) throw new Error(`"${open.at(-1)?.directive}" has no end.`);
  return { parts: open[0]!.parts, named };
}

function write(parts: readonly Part[], values: Values, template: Template): string[] {
  return parts.flatMap((part) => {
    if (typeof part === "string") return substitute(part, values);
    const [, kind, rest] = /^(if|for|put) (.+)$/.exec(part.directive) ?? [];
    switch (kind) {
      case "if":
        return write(holds(rest!, values) ? part.parts : part.otherwise, values, template);
      case "for":
        return rounds(rest!, values).flatMap((round) =>
          write(part.parts, { ...values, ...round }, template)
        );
      case "put": {
        const [name, key, ...value] = rest!.split(" ");
        const put = template.named.get(name!);
        if (put === undefined) throw new Error(`No part is called "${name}".`);
        const given = key === undefined ? {} : { [key]: substitute(value.join(" "), values) };
        return write(put, { ...values, ...given }, template);
      }
      default:
        throw new Error(`"${part.directive}" is not a directive.`);
    }
  });
}

function holds(condition: string, values: Values): boolean {
  const isNegated = condition.startsWith("!");
  return (calculate(condition.slice(isNegated ? 1 : 0), values) !== 0) !== isNegated;
}

/** The values by name in each round of a loop. */
function rounds(loop: string, values: Values): Values[] {
  const [, names, all] = /^(.+?) in (.+)$/.exec(loop) ?? [];
  if (all === undefined) throw new Error(`"for ${loop}" names nothing.`);
  const [from, to] = all.split("..");
  if (to !== undefined) {
    const first = calculate(from!, values);
    const count = Math.max(0, calculate(to, values) - first);
    return Array.from({ length: count }, (_, i) => ({ [names!]: first + i }));
  }
  const keys = names!.split(", ");
  return all.split(", ").map((item) => {
    const given = item.split(" ");
    return Object.fromEntries(keys.map((key, i) => [key, values[given[i]!] ?? given[i]!]));
  });
}

function substitute(line: string, values: Values): string {
  const written = line.replaceAll(
    /\$(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\)|([a-z]+|[A-Z][A-Z_]*))/g,
    (_, sum?: string, name?: string) =>
      sum === undefined ? `${evaluate(name!, values)}` : `${calculate(sum, values)}`,
  );
  if (written.includes("$")) throw new Error(`"${line.trim()}" has parentheses three deep.`);
  return written;
}

function evaluate(name: string, values: Values): string | number {
  const value = values[name];
  if (value === undefined) throw new Error(`"${name}" has no value.`);
  return typeof value === "boolean" ? Number(value) : value;
}

/** Evaluates a sum of products of whole numbers and names; division rounds down. */
function calculate(sum: string, values: Values): number {
  const tokens = sum.match(/\d+|\w+|[-+*/%()<]/g) ?? [];
  const factor = (): number => {
    const token = tokens.shift() ?? "";
    if (token === "(") {
      const value = terms();
      tokens.shift();
      return value;
    }
    const value = Number(/^\d/.test(token) ? token : evaluate(token, values));
    if (Number.isNaN(value)) throw new Error(`"${token}" in "${sum}" is not a number.`);
    return value;
  };
  const factors = (): number => {
    let value = factor();
    while (/^[*/%]$/.test(tokens[0] ?? "")) {
      const operator = tokens.shift();
      const next = factor();
      value = operator === "*"
        ? value * next
        : operator === "/"
        ? Math.floor(value / next)
        : value % next;
    }
    return value;
  };
  const terms = (): number => {
    let value = factors();
    while (/^[-+]$/.test(tokens[0] ?? "")) {
      value += tokens.shift() === "+" ? factors() : -factors();
    }
    return value;
  };
  let value = terms();
  if (tokens[0] === "<") {
    tokens.shift();
    value = Number(value < terms());
  }
  if (tokens.length > 0) throw new Error(`"${sum}" is not a sum.`);
  return value;
}

/** WGSL that declares `elem`, a single element, by element type. It must be the first part of a shader. */
export const ELEM: Readonly<Record<Elem, string>> = {
  f32: "alias elem = f32;\n",
  f16: "enable f16;\nalias elem = f16;\n",
};

/** WGSL that declares `four`, four neighbouring elements in memory, with `unpack` and `pack`, by element type. */
export const FOUR: Readonly<Record<Elem, string>> = {
  f32: expand(fourSource, { IS_F32: true, IS_F16: false, IS_HALF: false }),
  f16: expand(fourSource, { IS_F32: false, IS_F16: true, IS_HALF: false }),
};

/** {@linkcode FOUR} for f16, if the kernel also computes in f16. */
export const HALF_FOUR: string = expand(fourSource, {
  IS_F32: false,
  IS_F16: false,
  IS_HALF: true,
});
