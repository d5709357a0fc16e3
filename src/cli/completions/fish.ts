/**
 * Completion for fish.
 *
 * @module
 */
import type { CompletedCommand, CompletedFlag, Values } from "../completed_command.ts";

/** The script. The first command is the default one. */
export function writeFish(commands: readonly CompletedCommand[]): string {
  const [first] = commands;
  const names = commands.map(({ name }) => name).join(" ");
  const lines = commands.flatMap((command) => {
    const isMeant = `__fish_seen_subcommand_from ${command.name}`;
    const condition = command === first
      ? `not __fish_seen_subcommand_from ${names}; or ${isMeant}`
      : isMeant;
    return [
      `complete -c hearth -n ${quote(`not __fish_seen_subcommand_from ${names}`)} -f ` +
      `-a ${command.name} -d ${quote(command.summary)}`,
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
  return `complete -c hearth -n ${quote(condition)} -l ${long.slice(2)}${shortName}${value} -d ${
    quote(help)
  }`;
}

function operands(condition: string, values: Values): string[] {
  if (values === "files") return [];
  return [`complete -c hearth -n ${quote(condition)} -f${words(values)}`];
}

function words(values: Values): string {
  return typeof values === "string" ? "" : ` -a ${quote(values.join(" "))}`;
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
