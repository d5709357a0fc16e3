/**
 * A command and its flags: each flag's syntax, range, default and help in one value.
 *
 * @module
 */

/** A parsed call of a command. */
export interface Call<F extends FlagTable> {
  readonly flags: FlagValues<F>;
  /** Operands: no more than the command declares. */
  readonly operands: readonly string[];
}

export interface Command<F extends FlagTable = FlagTable> {
  readonly name: string;
  /** A second name, which other programs use for such a command: `ls` for `list`. */
  readonly alias?: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** Operands in order, as `--help` shows them: `<model>` is required, `[port]` optional. */
  readonly operands: readonly string[];
  readonly flags: F;
  /**
   * Runs the command.
   *
   * @returns the exit code of the process.
   * @throws {StartupError} when it fails for a reason that the user can fix.
   */
  readonly run: (call: Call<F>) => Promise<number>;
}

/** Checks that `run` accepts the command's flags, and erases the flags' types so that commands fit in one list. */
export function defineCommand<F extends FlagTable>(command: Command<F>): Command {
  // Safe: the parser fills `flags` from the table of this command.
  return command as unknown as Command;
}

/** The command line or environment is invalid. The message says which part, and what is expected. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** A flag. Its long name and its environment variable are derived from its key in a {@linkcode FlagTable}. */
export interface Flag<T> {
  /** One letter, if it has a short form. */
  readonly short: string | undefined;
  /** Name of the value in `--help`; a flag without one is a switch. */
  readonly placeholder: string | undefined;
  readonly help: string;
  readonly fallback: T;
  /** Whether the flag takes several values: by repeating it (`again`), or also separated by commas (`commas`). */
  readonly repeats: "never" | "again" | "commas";
  /**
   * Parses the values in order; a flag that takes a single value uses the last one.
   *
   * @param source the flag as the user wrote it (`--port`, `HEARTH_PORT`), for error messages.
   * @throws {UsageError} when a value is out of the flag's range.
   */
  readonly parse: (texts: readonly string[], source: string) => T;
}

/** The flags of a command, by camelCase key. */
export type FlagTable = Readonly<Record<string, Flag<unknown>>>;

/** The parsed values of a table's flags. */
export type FlagValues<F extends FlagTable> = {
  readonly [Key in keyof F]: F[Key] extends Flag<infer T> ? T : never;
};

interface FlagOptions {
  readonly short?: string;
  readonly help: string;
}

interface ValueOptions<Fallback> extends FlagOptions {
  /** Default value; `undefined` if absent. */
  readonly fallback?: Fallback;
}

interface Placeholder {
  readonly placeholder: string;
}

function single<T, Fallback>(
  options: ValueOptions<Fallback> & Placeholder,
  parse: (text: string, source: string) => T,
): Flag<T | Fallback> {
  return {
    short: options.short,
    placeholder: options.placeholder,
    help: options.help,
    fallback: options.fallback as Fallback,
    repeats: "never",
    parse: (texts, source) => parse(texts.at(-1) ?? "", source),
  };
}

/** Defines a flag whose value is any text that is not empty. */
export function text<Fallback extends string | undefined = undefined>(
  options: ValueOptions<Fallback> & Placeholder,
): Flag<string | Fallback> {
  return single(options, (value, source) => {
    if (value.trim() === "") {
      throw new UsageError(`${source} is empty; give ${options.placeholder}.`);
    }
    return value;
  });
}

/** Defines a flag whose value is a whole number from `min` to `max`. */
export function integer<Fallback extends number | undefined = undefined>(
  options: ValueOptions<Fallback> & Placeholder & { readonly min: number; readonly max: number },
): Flag<number | Fallback> {
  const { min, max } = options;
  return single(options, (value, source) => {
    const number = /^\d+$/.test(value) ? Number(value) : NaN;
    if (number >= min && number <= max) return number;
    throw new UsageError(`${source} wants a whole number from ${min} to ${max}, got "${value}".`);
  });
}

/** Defines a flag whose value is one of a few words. */
export function choice<
  const Word extends string,
  const Fallback extends Word | undefined = undefined,
>(
  options: ValueOptions<Fallback> & { readonly values: readonly Word[] },
): Flag<Word | Fallback> {
  const placeholder = options.values.join("|");
  return single({ ...options, placeholder }, (value, source) => {
    const found = options.values.find((word) => word === value);
    if (found !== undefined) return found;
    throw new UsageError(`${source} wants one of ${options.values.join(", ")}, got "${value}".`);
  });
}

/**
 * Defines a flag that takes several values, repeated or separated by commas.
 *
 * @param options.parseItem parses one value; it may throw a {@linkcode UsageError}.
 */
export function list(
  options: FlagOptions & Placeholder & {
    readonly parseItem: (item: string, source: string) => string;
  },
): Flag<readonly string[]> {
  return {
    short: options.short,
    placeholder: options.placeholder,
    help: options.help,
    fallback: [],
    repeats: "commas",
    parse: (texts, source) =>
      texts.flatMap((value) =>
        value.split(",").map((item) => options.parseItem(item.trim(), source))
      ),
  };
}

/** Defines a flag that may be repeated, each time with any text. */
export function texts(options: FlagOptions & Placeholder): Flag<readonly string[]> {
  return {
    short: options.short,
    placeholder: options.placeholder,
    help: options.help,
    fallback: [],
    repeats: "again",
    parse: (values) => values,
  };
}

/** Defines a flag whose value is a number from `min` to `max`. */
export function number<Fallback extends number | undefined = undefined>(
  options: ValueOptions<Fallback> & Placeholder & { readonly min: number; readonly max: number },
): Flag<number | Fallback> {
  const { min, max } = options;
  return single(options, (value, source) => {
    const read = /^\d+(\.\d+)?$/.test(value) ? Number(value) : NaN;
    if (read >= min && read <= max) return read;
    throw new UsageError(`${source} wants a number from ${min} to ${max}, got "${value}".`);
  });
}

const SWITCH_WORDS: Readonly<Record<string, boolean>> = {
  "1": true,
  "true": true,
  "yes": true,
  "on": true,
  "0": false,
  "false": false,
  "no": false,
  "off": false,
};

/** Defines a switch: `--name`, `--no-name`; in the environment a word such as `1` or `false`. */
export function toggle(options: FlagOptions & { readonly fallback?: boolean }): Flag<boolean> {
  return {
    short: options.short,
    placeholder: undefined,
    help: options.help,
    fallback: options.fallback ?? false,
    repeats: "never",
    parse: (texts, source) => {
      const word = texts.at(-1) ?? "";
      const value = SWITCH_WORDS[word.toLowerCase()];
      if (value !== undefined) return value;
      throw new UsageError(`${source} wants 1 or 0 (true or false), got "${word}".`);
    },
  };
}

/** Converts a key to the name of its flag: `maxQueue` → `max-queue`. */
export function toFlagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Converts a key to the name of its environment variable: `maxQueue` → `HEARTH_MAX_QUEUE`. */
export function toEnvironmentName(key: string): string {
  return `HEARTH_${toFlagName(key).replaceAll("-", "_").toUpperCase()}`;
}
