/**
 * Parses operands: names, literals, calls, filters and tests.
 *
 * @module
 */
import type { CallArguments, Expression, FilterNode } from "./nodes.ts";
import type { TokenStream } from "./lexer.ts";

const NO_ARGUMENTS: CallArguments = {
  positional: [],
  named: [],
  rest: undefined,
  restNamed: undefined,
};

export interface TupleOptions {
  /** Whether the items are only names and literals, without operators, calls and filters. */
  readonly isSimple?: boolean;
  /** Whether `a if b else c` is allowed; true if absent. */
  readonly hasConditions?: boolean;
  readonly isInParentheses?: boolean;
}

export abstract class OperandParser {
  protected readonly stream: TokenStream;

  constructor(stream: TokenStream) {
    this.stream = stream;
  }

  abstract parseExpression(): Expression;

  /** Parses an expression, or a tuple without parentheses. */
  abstract parseTuple(options?: TupleOptions): Expression;

  parsePrimary(): Expression {
    const { stream } = this;
    const { type, text } = stream.current;
    if (type === "name") {
      stream.next();
      if (/^[tT]rue$|^[fF]alse$/.test(text)) return constant(/^[tT]/.test(text));
      return text === "none" || text === "None" ? constant(null) : { kind: "name", name: text };
    }
    if (type === "number") return constant(stream.next().value);
    if (type === "string") {
      let joined = "";
      while (stream.current.type === "string") joined += stream.next().value;
      return constant(joined);
    }
    if (stream.skipOperator("(")) {
      const inner = this.parseTuple({ isInParentheses: true });
      stream.expectOperator(")");
      return inner;
    }
    if (stream.isOperator("[")) return this.#parseList();
    if (stream.isOperator("{")) return this.#parseDict();
    return stream.fail(`unexpected '${text}'`);
  }

  #parseList(): Expression {
    this.stream.expectOperator("[");
    const items = this.#parseUntil("]", () => this.parseExpression());
    return { kind: "list", items };
  }

  #parseDict(): Expression {
    this.stream.expectOperator("{");
    const entries = this.#parseUntil("}", () => {
      const key = this.parseExpression();
      this.stream.expectOperator(":");
      return [key, this.parseExpression()] as const;
    });
    return { kind: "dict", entries };
  }

  /** Parses items separated by commas, up to the closing token; a comma may follow the last item. */
  #parseUntil<T>(close: string, parse: () => T): T[] {
    const items: T[] = [];
    while (!this.stream.isOperator(close)) {
      if (items.length > 0) this.stream.expectOperator(",");
      if (this.stream.isOperator(close)) break;
      items.push(parse());
    }
    this.stream.expectOperator(close);
    return items;
  }

  protected parsePostfix(value: Expression): Expression {
    let result = value;
    for (;;) {
      if (this.stream.isOperator(".", "[")) result = this.#parseSubscript(result);
      else if (this.stream.isOperator("(")) result = this.#parseCall(result);
      else return result;
    }
  }

  #parseCall(callee: Expression): Expression {
    return { kind: "call", callee, args: this.#parseArguments() };
  }

  #parseSubscript(value: Expression): Expression {
    const { stream } = this;
    if (stream.skipOperator(".")) {
      const token = stream.next();
      if (token.type === "name") return { kind: "attribute", value, name: token.text };
      if (token.type !== "number" || typeof token.value !== "number") {
        stream.fail("expected name or number");
      }
      return { kind: "item", value, key: constant(token.value) };
    }
    stream.expectOperator("[");
    const keys: Expression[] = [];
    while (!stream.isOperator("]")) {
      if (keys.length > 0) stream.expectOperator(",");
      keys.push(this.#parseKey());
    }
    stream.expectOperator("]");
    return {
      kind: "item",
      value,
      key: keys.length === 1 ? keys[0]! : { kind: "tuple", items: keys },
    };
  }

  #parseKey(): Expression {
    const { stream } = this;
    const isEmpty = () => stream.isOperator(":", "]", ",");
    const start = stream.isOperator(":") ? undefined : this.parseExpression();
    if (!stream.skipOperator(":")) return start!;
    const stop = isEmpty() ? undefined : this.parseExpression();
    const step = stream.skipOperator(":") && !isEmpty() ? this.parseExpression() : undefined;
    return { kind: "slice", start, stop, step };
  }

  #parseArguments(): CallArguments {
    const { stream } = this;
    stream.expectOperator("(");
    const positional: Expression[] = [];
    const named: { name: string; value: Expression }[] = [];
    let rest: Expression | undefined;
    let restNamed: Expression | undefined;
    const require = (isValid: boolean) => {
      if (!isValid) stream.fail("invalid syntax for function call expression");
    };
    let isFirst = true;
    while (!stream.isOperator(")")) {
      if (!isFirst) stream.expectOperator(",");
      isFirst = false;
      if (stream.isOperator(")")) break;
      if (stream.skipOperator("*")) {
        require(rest === undefined && restNamed === undefined);
        rest = this.parseExpression();
      } else if (stream.skipOperator("**")) {
        require(restNamed === undefined);
        restNamed = this.parseExpression();
      } else if (this.#isNamedArgument()) {
        require(restNamed === undefined);
        const name = stream.next().text;
        stream.next();
        named.push({ name, value: this.parseExpression() });
      } else {
        require(rest === undefined && restNamed === undefined && named.length === 0);
        positional.push(this.parseExpression());
      }
    }
    stream.expectOperator(")");
    return { positional, named, rest, restNamed };
  }

  #isNamedArgument(): boolean {
    const { current, following } = this.stream;
    return current.type === "name" && following.type === "operator" && following.text === "=";
  }

  protected parseFilters(value: Expression): Expression {
    let result = value;
    for (;;) {
      if (this.stream.isOperator("|")) result = this.parseFilter(result)!;
      else if (this.stream.isName("is")) result = this.#parseTest(result);
      else if (this.stream.isOperator("(")) result = this.#parseCall(result);
      else return result;
    }
  }

  /** Parses the filters after a value, or the filters of a block if there is no value. */
  parseFilter(value: Expression | undefined, isInline = false): FilterNode | undefined {
    let node: FilterNode | undefined;
    while (
      isInline ? node === undefined || this.stream.isOperator("|") : this.stream.isOperator("|")
    ) {
      if (node !== undefined || !isInline) this.stream.next();
      const name = this.#parseDottedName();
      const args = this.stream.isOperator("(") ? this.#parseArguments() : NO_ARGUMENTS;
      node = { kind: "filter", name, value: node ?? value, args };
    }
    return node;
  }

  #parseDottedName(): string {
    let name = this.stream.expect("name").text;
    while (this.stream.skipOperator(".")) name += `.${this.stream.expect("name").text}`;
    return name;
  }

  #parseTest(value: Expression): Expression {
    const { stream } = this;
    stream.next();
    const isNegated = stream.skipName("not");
    const name = this.#parseDottedName();
    const test: Expression = { kind: "test", name, value, args: this.#parseTestArguments() };
    return isNegated ? { kind: "unary", operator: "not", value: test } : test;
  }

  #parseTestArguments(): CallArguments {
    const { stream } = this;
    if (stream.isOperator("(")) return this.#parseArguments();
    const { type } = stream.current;
    const begins = type === "name" || type === "string" || type === "number" ||
      stream.isOperator("[", "{");
    if (!begins || stream.isName("else", "or", "and")) return NO_ARGUMENTS;
    if (stream.isName("is")) stream.fail("You cannot chain multiple tests with is");
    return { ...NO_ARGUMENTS, positional: [this.parsePostfix(this.parsePrimary())] };
  }
}

function constant(value: Extract<Expression, { kind: "constant" }>["value"]): Expression {
  return { kind: "constant", value };
}
