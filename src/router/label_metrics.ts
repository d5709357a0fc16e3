/**
 * Merges the metrics of several processes into one text for Prometheus.
 *
 * @module
 */

/** The lines of one metric: its `# HELP` and `# TYPE`, then its samples. */
interface Family {
  readonly comments: readonly string[];
  readonly samples: string[];
}

/**
 * Merges texts in Prometheus' format. Each sample gets the label `model` unless it has one, and a metric of several
 * processes is described only once.
 *
 * @param scrapes each model's name and text.
 */
export function labelMetrics(scrapes: ReadonlyMap<string, string>): string {
  const families = new Map<string, Family>();
  for (const [model, text] of scrapes) {
    let comments: string[] = [];
    let family: Family | undefined;
    for (const line of text.split("\n").filter((each) => each !== "")) {
      if (line.startsWith("#")) {
        if (family !== undefined) comments = [];
        family = undefined;
        comments.push(line);
        continue;
      }
      family ??= openFamily(families, comments, line);
      family.samples.push(labelSample(line, model));
    }
  }
  const lines = [...families.values()].flatMap(({ comments, samples }) => [
    ...comments,
    ...samples,
  ]);
  return lines.length === 0 ? "" : `${lines.join("\n")}\n`;
}

function openFamily(
  families: Map<string, Family>,
  comments: readonly string[],
  sample: string,
): Family {
  const name = /^# \w+ (\S+)/.exec(comments[0] ?? "")?.[1] ?? /^[^{\s]+/.exec(sample)![0];
  const known = families.get(name);
  if (known !== undefined) return known;
  const family = { comments, samples: [] };
  families.set(name, family);
  return family;
}

function labelSample(line: string, model: string): string {
  const label = `model="${model.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"`;
  const [, name = "", labels] = /^([^{\s]+)(\{)?/.exec(line)!;
  if (labels === undefined) return `${name}{${label}}${line.slice(name.length)}`;
  const rest = line.slice(name.length + 1);
  if (/^(?:.*",)?model="/.test(rest)) return line;
  return `${name}{${label}${rest.startsWith("}") ? "" : ","}${rest}`;
}
