import { Command, type ParseOptionsResult } from "commander";

/**
 * A command whose arguments may begin with one dash, as ids may: `-bob` is the argument, because commands have
 * no short option but `-h`. A word that begins with two dashes is an option, unless it follows `--`.
 */
export class DashedCommand extends Command {
  override createCommand(name?: string): Command {
    return new DashedCommand(name);
  }

  override parseOptions(words: string[]): ParseOptionsResult {
    const { operands, unknown } = super.parseOptions(words);
    const isArgument = (word: string) => !word.startsWith("--") && word !== "-h";
    while (operands.length < this.registeredArguments.length && unknown[0] !== undefined && isArgument(unknown[0])) {
      operands.push(unknown.shift()!);
    }
    return { operands, unknown };
  }
}
