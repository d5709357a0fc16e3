/**
 * Completion for zsh.
 *
 * @module
 */
import type { CompletedCommand, CompletedFlag, Values } from "../completed_command.ts";

/** The script. The first command is the default one. */
export function writeZsh(commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name, summary }) => `    ${quote(`${name}:${summary}`)}`);
  const cases = commands.map(({ name, flags, operands }) =>
    [
      `    ${name}) _arguments \\`,
      ...flags.flatMap((flag) => [...specs(flag).map((spec) => `      ${quote(spec)} \\`)]),
      `      ${quote(`*:argument:${action(operands)}`)} ;;`,
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

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
