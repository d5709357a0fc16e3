/**
 * `completions`: scripts that let a shell complete commands, flags, their values and model names. They are made from
 * the tables that parse the command line.
 *
 * @module
 */
import { HUB_ID_OF_ALIAS, listBuiltIn } from "../hub/catalogue.ts";
import { type Command, type Flag, toFlagName, UsageError } from "./command.ts";
import { COMMON_FLAGS } from "./shared_flags.ts";
import { printLine } from "./print.ts";

const SCRIPTS = new Map([
  ["bash", writeBash],
  ["zsh", writeZsh],
  ["fish", writeFish],
  ["powershell", writePowerShell],
]);
const SHELLS = [...SCRIPTS.keys()];

/** Prints the script for a shell. @returns 0. @throws {UsageError} for an unknown shell. */
export async function completions(shell: string, commands: readonly Command[]): Promise<number> {
  const write = SCRIPTS.get(shell);
  if (write === undefined) {
    throw new UsageError(`completions wants one of ${SHELLS.join(", ")}, got "${shell}".`);
  }
  const models = [...await listBuiltIn(), ...HUB_ID_OF_ALIAS.keys()];
  printLine(write(commands.map((command) => describeCommand(command, models))));
  return 0;
}

function describeCommand(
  { name, summary, flags, operands }: Command,
  models: readonly string[],
): CompletedCommand {
  return {
    name,
    summary,
    flags: Object.entries({ ...flags, ...COMMON_FLAGS }).map(([key, flag]) =>
      describeFlag(key, flag, models)
    ),
    operands: operands.length === 0 ? "none" : completeValues(operands[0]!, models),
  };
}

function describeFlag(
  key: string,
  { short, help, placeholder, fallback }: Flag<unknown>,
  models: readonly string[],
): CompletedFlag {
  return {
    // A switch that is on by default is only useful as `--no-…`.
    long: `--${fallback === true ? "no-" : ""}${toFlagName(key)}`,
    short: short && `-${short}`,
    help: help.replace(/[.:;] .*/s, "").replace(/\.$/, ""),
    values: placeholder === undefined ? undefined : completeValues(placeholder, models),
  };
}

/** Finds the values of a placeholder: `<model>`, `<file>`, or words separated by bars. */
function completeValues(placeholder: string, models: readonly string[]): Values {
  if (/file|folder/.test(placeholder)) return "files";
  if (placeholder === "<model>") return models;
  if (placeholder === "<shell>") return SHELLS;
  return placeholder.startsWith("<") || placeholder.startsWith("[")
    ? "none"
    : placeholder.split("|");
}

/** Candidates for a completion: words, files, or nothing. */
type Values = readonly string[] | "files" | "none";

/** A flag as the scripts complete it. */
interface CompletedFlag {
  readonly long: string;
  readonly short: string | undefined;
  readonly help: string;
  /** Values of the flag; `undefined` for a switch. */
  readonly values: Values | undefined;
}

/** A command as the scripts complete it. */
interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly flags: readonly CompletedFlag[];
  readonly operands: Values;
}

// The scripts. In each, the first command is the default one.

/** Writes the completion script for bash. */
function writeBash(commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name }) => name).join(" ");
  const cases = commands.flatMap((command) => {
    const valued = command.flags.filter(({ values }) => values !== undefined);
    const arms = valued.map(({ long, short, values }) =>
      `        ${short === undefined ? long : `${long}|${short}`}) ${
        completeBash(values!)
      }; return ;;`
    );
    const words = command.flags.map(({ long }) => long).join(" ");
    return [
      `    ${command.name})`,
      ...(arms.length === 0 ? [] : ['      case "$previous" in', ...arms, "      esac"]),
      `      if [[ $current == -* ]]; then COMPREPLY=($(compgen -W "${words}" -- "$current"))`,
      `      else ${completeBash(command.operands)}; fi ;;`,
    ];
  });
  return `# hearth completions bash > ~/.local/share/bash-completion/completions/hearth
_hearth() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local command=${commands[0]!.name}
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 && $current != -* ]]; then
    COMPREPLY=($(compgen -W "${names}" -- "$current"))
    return
  fi
  [[ \${COMP_WORDS[1]} != -* ]] && command=\${COMP_WORDS[1]}
  case "$command" in
${cases.join("\n")}
  esac
}
complete -F _hearth hearth`;
}

function completeBash(values: Values): string {
  if (values === "none") return ":";
  if (values === "files") return 'COMPREPLY=($(compgen -f -- "$current"))';
  return `COMPREPLY=($(compgen -W "${values.join(" ")}" -- "$current"))`;
}

/** Writes the completion script for fish. */
function writeFish(commands: readonly CompletedCommand[]): string {
  const [first] = commands;
  const names = commands.map(({ name }) => name).join(" ");
  const lines = commands.flatMap((command) => {
    const isMeant = `__fish_seen_subcommand_from ${command.name}`;
    const condition = command === first
      ? `not __fish_seen_subcommand_from ${names}; or ${isMeant}`
      : isMeant;
    return [
      `complete -c hearth -n ${quoteFish(`not __fish_seen_subcommand_from ${names}`)} -f ` +
      `-a ${command.name} -d ${quoteFish(command.summary)}`,
      ...completeFishOperands(isMeant, command.operands),
      ...command.flags.map((flag) => completeFish(condition, flag)),
    ];
  });
  return ["# hearth completions fish > ~/.config/fish/completions/hearth.fish", ...lines].join(
    "\n",
  );
}

function completeFish(condition: string, { long, short, help, values }: CompletedFlag): string {
  const shortName = short === undefined ? "" : ` -s ${short.slice(1)}`;
  const value = values === undefined
    ? ""
    : values === "files"
    ? " -r -F"
    : ` -x${writeFishValues(values)}`;
  return `complete -c hearth -n ${quoteFish(condition)} -l ${
    long.slice(2)
  }${shortName}${value} -d ${quoteFish(help)}`;
}

function completeFishOperands(condition: string, values: Values): string[] {
  if (values === "files") return [];
  return [`complete -c hearth -n ${quoteFish(condition)} -f${writeFishValues(values)}`];
}

function writeFishValues(values: Values): string {
  return typeof values === "string" ? "" : ` -a ${quoteFish(values.join(" "))}`;
}

function quoteFish(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/** Writes the completion script for zsh. */
function writeZsh(commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name, summary }) => `    ${quoteZsh(`${name}:${summary}`)}`);
  const cases = commands.map(({ name, flags, operands }) =>
    [
      `    ${name}) _arguments \\`,
      ...flags.flatMap((flag) => [
        ...writeZshSpecs(flag).map((spec) => `      ${quoteZsh(spec)} \\`),
      ]),
      `      ${quoteZsh(`*:argument:${writeZshAction(operands)}`)} ;;`,
    ].join("\n")
  );
  return `#compdef hearth
# hearth completions zsh > "\${fpath[1]}/_hearth"
_hearth() {
  local -a commands=(
${names.join("\n")}
  )
  local command=${commands[0]!.name}
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  if [[ $words[2] != -* ]]; then
    command=$words[2]
    shift words
    (( CURRENT-- ))
  fi
  case $command in
${cases.join("\n")}
  esac
}
compdef _hearth hearth`;
}

function writeZshSpecs({ long, short, help, values }: CompletedFlag): string[] {
  const text = `[${help.replaceAll(/[[\]\\:]/g, "\\$&")}]`;
  const value = values === undefined ? "" : `:value:${writeZshAction(values)}`;
  return [long, ...(short === undefined ? [] : [short])].map((name) => `*${name}${text}${value}`);
}

function writeZshAction(values: Values): string {
  if (values === "none") return " ";
  return values === "files" ? "_files" : `(${values.join(" ")})`;
}

function quoteZsh(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Writes the completion script for PowerShell. */
function writePowerShell(commands: readonly CompletedCommand[]): string {
  const tables = commands.map(({ name, flags, operands }) => {
    const valued = flags.flatMap(({ long, short, values }) =>
      values === undefined
        ? []
        : [long, ...(short === undefined ? [] : [short])].map((flag) =>
          `      ${quotePowerShell(flag)} = ${writePowerShellValues(values)}`
        )
    );
    return [
      `    ${quotePowerShell(name)} = @{`,
      ...valued,
      `      'flags' = ${writePowerShellValues(flags.map(({ long }) => long))}`,
      `      'operands' = ${writePowerShellValues(operands)}`,
      "    }",
    ].join("\n");
  });
  return `# hearth completions powershell >> $PROFILE
Register-ArgumentCompleter -Native -CommandName hearth -ScriptBlock {
  param($current, $ast, $position)
  $commands = [ordered]@{
${tables.join("\n")}
  }
  $words = @($ast.CommandElements | Where-Object { $_.Extent.EndOffset -lt $position } | ForEach-Object { $_.ToString() })
  $named = $words.Count -gt 1 -and $commands.Contains($words[1])
  $command = if ($named) { $commands[$words[1]] } else { $commands[${
    quotePowerShell(commands[0]!.name)
  }] }
  $previous = $words[-1]
  $known = if ($words.Count -eq 1 -and $current -notlike '-*') { @($commands.Keys) }
    elseif ($previous -like '-*' -and $command.ContainsKey($previous)) { $command[$previous] }
    elseif ($current -like '-*') { $command['flags'] }
    else { $command['operands'] }
  $known | Where-Object { $_ -like "$current*" } | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) }
}`;
}

/** Lists the words. PowerShell completes files by itself if nothing else is offered. */
function writePowerShellValues(values: Values): string {
  return typeof values === "string" ? "@()" : `@(${values.map(quotePowerShell).join(", ")})`;
}

function quotePowerShell(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
