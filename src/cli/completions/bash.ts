/**
 * Completion for bash.
 *
 * @module
 */
import type { CompletedCommand, Values } from "../completed_command.ts";

/** The script. The first command is the default one. */
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
