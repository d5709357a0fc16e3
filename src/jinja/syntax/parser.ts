/**
 * Parses templates.
 *
 * @module
 */
import { SPACE } from "../python/text.ts";
import { ExpressionParser } from "./expression_parser.ts";
import { tokenize, TokenStream } from "./lexer.ts";
import type { Expression, IfNode, NameNode, Signature, Statement, Target } from "./nodes.ts";

/** @throws {TemplateError} `TemplateSyntaxError` */
export function parseTemplate(source: string): Statement[] {
  return new Parser(new TokenStream(tokenize(source))).parseAll();
}

class Parser extends ExpressionParser {
  parseAll(): Statement[] {
    return this.#parseUntil([]);
  }

  /** Parses statements up to one of these tags, whose name becomes the current token; without tags, up to the end. */
  #parseUntil(endTags: readonly string[]): Statement[] {
    const { stream } = this;
    const body: Statement[] = [];
    for (;;) {
      const { type, text } = stream.current;
      if (type === "text") {
        body.push({ kind: "text", text: stream.next().text });
      } else if (type === "begin print") {
        stream.next();
        body.push({ kind: "print", values: [this.parseTuple()] });
        stream.expect("end print");
      } else if (type === "begin block") {
        stream.next();
        if (stream.isName(...endTags)) return body;
        body.push(...this.#parseStatement());
        stream.expect("end block");
      } else {
        if (endTags.length === 0) return body;
        stream.fail(`Unexpected ${text}; it was looking for ${endTags.join(" or ")}`);
      }
    }
  }

  /** Parses the end of a tag, which may have a colon, and the body after it. */
  #parseBody(...endTags: readonly string[]): Statement[] {
    this.stream.skipOperator(":");
    this.stream.expect("end block");
    return this.#parseUntil(endTags);
  }

  /** Parses the end of a tag, its body, and the name of its end tag. */
  #parseWhole(endTag: string): Statement[] {
    const body = this.#parseBody(endTag);
    this.stream.next();
    return body;
  }

  #parseStatement(): Statement[] {
    const { text } = this.stream.expect("name");
    const parse = STATEMENTS.get(text);
    if (parse === undefined) this.stream.fail(`Encountered unknown tag '${text}'`);
    return [parse(this)];
  }

  parseFor(): Statement {
    const { stream } = this;
    const target = this.#parseTarget();
    stream.expect("name", "in");
    const values = this.parseTuple({ hasConditions: false });
    const test = stream.skipName("if") ? this.parseExpression() : undefined;
    const isRecursive = stream.skipName("recursive");
    const body = this.#parseBody("endfor", "else");
    const otherwise = stream.next().text === "else" ? this.#parseWhole("endfor") : [];
    return { kind: "for", target, values, test, isRecursive, body, otherwise };
  }

  parseIf(): Statement {
    const { stream } = this;
    const parseBranch = () => ({
      test: this.parseTuple({ hasConditions: false }),
      body: this.#parseBody("elif", "else", "endif"),
    });
    const first = parseBranch();
    const elifs: IfNode["elifs"][number][] = [];
    while (stream.skipName("elif")) elifs.push(parseBranch());
    const otherwise = stream.next().text === "else" ? this.#parseWhole("endif") : [];
    return { kind: "if", ...first, elifs, otherwise };
  }

  parseSet(): Statement {
    const { stream } = this;
    const { type, text } = stream.following;
    const target = type === "operator" && text === "."
      ? this.#parseNamespace()
      : this.#parseTarget();
    if (stream.skipOperator("=")) return { kind: "set", target, value: this.parseTuple() };
    const filter = this.parseFilter(undefined);
    return { kind: "set block", target, filter, body: this.#parseWhole("endset") };
  }

  #parseNamespace(): Target {
    const name = this.stream.expect("name").text;
    this.stream.next();
    return { kind: "namespace", name, attribute: this.stream.expect("name").text };
  }

  #parseTarget(): Target {
    const target = this.parseTuple({ isSimple: true });
    if (!isTarget(target)) this.stream.fail(`can't assign to '${target.kind}'`);
    return target as Target;
  }

  #parseName(): string {
    const { text } = this.stream.expect("name");
    if (RESERVED.has(text)) this.stream.fail(`can't assign to '${text}'`);
    return text;
  }

  parseMacro(): Statement {
    const name = this.#parseName();
    const signature = this.#parseSignature();
    return { kind: "macro", name, ...signature, body: this.#parseWhole("endmacro") };
  }

  #parseSignature(): Signature {
    const { stream } = this;
    const params: string[] = [];
    const defaults: Expression[] = [];
    stream.expectOperator("(");
    while (!stream.isOperator(")")) {
      if (params.length > 0) stream.expectOperator(",");
      params.push(this.#parseName());
      if (stream.skipOperator("=")) defaults.push(this.parseExpression());
      else if (defaults.length > 0) stream.fail("non-default argument follows default argument");
    }
    stream.expectOperator(")");
    return { params, defaults };
  }

  parseCallBlock(): Statement {
    const { stream } = this;
    const signature = stream.isOperator("(")
      ? this.#parseSignature()
      : { params: [], defaults: [] };
    const call = this.parseExpression();
    if (call.kind !== "call") return stream.fail("expected call");
    return { kind: "call block", ...signature, call, body: this.#parseWhole("endcall") };
  }

  parseFilterBlock(): Statement {
    const filter = this.parseFilter(undefined, true)!;
    return { kind: "filter block", filter, body: this.#parseWhole("endfilter") };
  }

  parseWith(): Statement {
    const { stream } = this;
    const targets: Target[] = [];
    const values: Expression[] = [];
    while (stream.current.type !== "end block") {
      if (targets.length > 0) stream.expectOperator(",");
      targets.push(this.#parseTarget());
      stream.expectOperator("=");
      values.push(this.parseExpression());
    }
    return { kind: "with", targets, values, body: this.#parseWhole("endwith") };
  }

  parsePrint(): Statement {
    const values: Expression[] = [];
    while (this.stream.current.type !== "end block") {
      if (values.length > 0) this.stream.expectOperator(",");
      values.push(this.parseExpression());
    }
    return { kind: "print", values };
  }

  parseAutoescape(): Statement {
    const value = this.parseExpression();
    return { kind: "autoescape", value, body: this.#parseWhole("endautoescape") };
  }

  /** Parses `generation`, which marks the assistant's text for training. Here it is only a scope. */
  parseGeneration(): Statement {
    return { kind: "with", targets: [], values: [], body: this.#parseWhole("endgeneration") };
  }

  parseBlock(): Statement {
    const { stream } = this;
    const name = stream.expect("name").text;
    const isScoped = stream.skipName("scoped");
    const isRequired = stream.skipName("required");
    const body = this.#parseWhole("endblock");
    const isBlank = body.every((each) =>
      each.kind === "text" && Array.from(each.text).every((char) => SPACE.test(char))
    );
    if (isRequired && !isBlank) {
      stream.fail("Required blocks can only contain comments or whitespace");
    }
    stream.skipName(name);
    return { kind: "block", name, isScoped, isRequired, body };
  }

  /** Parses `include`, `import`, `from` or `extends` up to the end of the tag. */
  parseLoad(): Statement {
    const value = this.parseExpression();
    while (this.stream.current.type !== "end block") this.stream.next();
    return { kind: "load", value };
  }
}

const RESERVED = new Set(["true", "false", "none", "True", "False", "None"]);

function isTarget(node: Expression): node is NameNode | Extract<Expression, { kind: "tuple" }> {
  if (node.kind === "tuple") return node.items.every(isTarget);
  return node.kind === "name";
}

const STATEMENTS = new Map<string, (parser: Parser) => Statement>([
  ["for", (parser) => parser.parseFor()],
  ["if", (parser) => parser.parseIf()],
  ["set", (parser) => parser.parseSet()],
  ["macro", (parser) => parser.parseMacro()],
  ["call", (parser) => parser.parseCallBlock()],
  ["filter", (parser) => parser.parseFilterBlock()],
  ["with", (parser) => parser.parseWith()],
  ["print", (parser) => parser.parsePrint()],
  ["autoescape", (parser) => parser.parseAutoescape()],
  ["generation", (parser) => parser.parseGeneration()],
  ["block", (parser) => parser.parseBlock()],
  ["include", (parser) => parser.parseLoad()],
  ["import", (parser) => parser.parseLoad()],
  ["from", (parser) => parser.parseLoad()],
  ["extends", (parser) => parser.parseLoad()],
  ["break", () => ({ kind: "break" })],
  ["continue", () => ({ kind: "continue" })],
]);
