/**
 * Completion for PowerShell.
 *
 * @module
 */
import type { CompletedCommand, Values } from "../completed_command.ts";

/** The script. The first command is the default one. */
export function writePowerShell(commands: readonly CompletedCommand[]): string {
  const tables = commands.map(({ name, flags, operands }) => {
    const valued = flags.flatMap(({ long, short, values }) =>
      values === undefined
        ? []
        : [long, ...(short === undefined ? [] : [short])].map((flag) =>
          `      ${quote(flag)} = ${list(values)}`
        )
    );
    return [
      `    ${quote(name)} = @{`,
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
  $command = if ($named) { $commands[$words[1]] } else { $commands[${quote(commands[0]!.name)}] }
  $previous = $words[-1]
  $known = if ($words.Count -eq 1 -and $current -notlike '-*') { @($commands.Keys) }
    elseif ($previous -like '-*' -and $command.ContainsKey($previous)) { $command[$previous] }
    elseif ($current -like '-*') { $command['flags'] }
    else { $command['operands'] }
  $known | Where-Object { $_ -like "$current*" } | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) }
}`;
}

/** Files are what PowerShell completes where nothing else is offered. */
function list(values: Values): string {
  return typeof values === "string" ? "@()" : `@(${values.map(quote).join(", ")})`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
