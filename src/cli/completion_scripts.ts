/**
 * The completion scripts of the shells. In each script, the first command is the default one.
 *
 * @module
 */

/** What to complete: words, files, or nothing. */
export type Values = readonly string[] | "files" | "none";

/** A flag as the scripts complete it. */
export interface CompletedFlag {
  readonly long: string;
  readonly short: string | undefined;
  readonly help: string;
  /** Values of the flag; `undefined` for a switch. */
  readonly values: Values | undefined;
}

/** A command as the scripts complete it. */
export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly flags: readonly CompletedFlag[];
  readonly operands: Values;
}

/** Writes the completion script for bash. */
export function writeBash(commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name }) => name).join(" ");
  const cases = commands.flatMap((command) => {
    const valued = command.flags.filter(({ values }) => values !== undefined);
    const arms = valued.map(({ long, short, values }) =>
      `        ${short === undefined ? long : `${long}|${short}`}) ${complete(values!)}; return ;;`
    );
    const words = command.flags.map(({ long }) => long).join(" ");
    return [
      `    ${command.name})`,
      ...(arms.length === 0 ? [] : ['      case "$previous" in', ...arms, "      esac"]),
      `      if [[ $current == -* ]]; then COMPREPLY=($(compgen -W "${words}" -- "$current"))`,
      `      else ${complete(command.operands)}; fi ;;`,
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

function complete(values: Values): string {
  if (values === "none") return ":";
  if (values === "files") return 'COMPREPLY=($(compgen -f -- "$current"))';
  return `COMPREPLY=($(compgen -W "${values.join(" ")}" -- "$current"))`;
}

/** Writes the completion script for fish. */
export function writeFish(commands: readonly CompletedCommand[]): string {
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
      ...operands(isMeant, command.operands),
      ...command.flags.map((flag) => describe(condition, flag)),
    ];
  });
  return ["# hearth completions fish > ~/.config/fish/completions/hearth.fish", ...lines].join(
    "\n",
  );
}

function describe(condition: string, { long, short, help, values }: CompletedFlag): string {
  const shortName = short === undefined ? "" : ` -s ${short.slice(1)}`;
  const value = values === undefined ? "" : values === "files" ? " -r -F" : ` -x${words(values)}`;
  return `complete -c hearth -n ${quoteFish(condition)} -l ${
    long.slice(2)
  }${shortName}${value} -d ${quoteFish(help)}`;
}

function operands(condition: string, values: Values): string[] {
  if (values === "files") return [];
  return [`complete -c hearth -n ${quoteFish(condition)} -f${words(values)}`];
}

function words(values: Values): string {
  return typeof values === "string" ? "" : ` -a ${quoteFish(values.join(" "))}`;
}

function quoteFish(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/** Writes the completion script for zsh. */
export function writeZsh(commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name, summary }) => `    ${quoteZsh(`${name}:${summary}`)}`);
  const cases = commands.map(({ name, flags, operands }) =>
    [
      `    ${name}) _arguments \\`,
      ...flags.flatMap((flag) => [...specs(flag).map((spec) => `      ${quoteZsh(spec)} \\`)]),
      `      ${quoteZsh(`*:argument:${action(operands)}`)} ;;`,
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

function specs({ long, short, help, values }: CompletedFlag): string[] {
  const text = `[${help.replaceAll(/[[\]\\:]/g, "\\$&")}]`;
  const value = values === undefined ? "" : `:value:${action(values)}`;
  return [long, ...(short === undefined ? [] : [short])].map((name) => `*${name}${text}${value}`);
}

function action(values: Values): string {
  if (values === "none") return " ";
  return values === "files" ? "_files" : `(${values.join(" ")})`;
}

function quoteZsh(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Writes the completion script for PowerShell. */
export function writePowerShell(commands: readonly CompletedCommand[]): string {
  const tables = commands.map(({ name, flags, operands }) => {
    const valued = flags.flatMap(({ long, short, values }) =>
      values === undefined
        ? []
        : [long, ...(short === undefined ? [] : [short])].map((flag) =>
          `      ${quotePowerShell(flag)} = ${list(values)}`
        )
    );
    return [
      `    ${quotePowerShell(name)} = @{`,
      ...valued,
      `      'flags' = ${list(flags.map(({ long }) => long))}`,
      `      'operands' = ${list(operands)}`,
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
function list(values: Values): string {
  return typeof values === "string" ? "@()" : `@(${values.map(quotePowerShell).join(", ")})`;
}

function quotePowerShell(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
