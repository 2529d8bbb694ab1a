// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderCoding

// The argument parser treats `--name=` as `--name`, so the next argument would become the value. The
// value after the equals sign is the one that was meant, and it is empty: it is passed as an argument of
// its own. What follows `--` is of another command and stays as it is.

/// The arguments of this process, before the argument parser has them.
enum CommandLineArguments {
  /// Returns the arguments for the argument parser. With `--json`, an error of the command line is
  /// printed as JSON, and ends the process.
  static func checked(_ arguments: [String]) -> [String] {
    var result: [String] = []
    var rest = arguments[...]
    while let argument = rest.popFirst(), argument != "--" {
      let name = String(argument.dropLast())
      guard argument.hasSuffix("="), name.hasPrefix("-"), !name.contains("="),
        !name.allSatisfy({ $0 == "-" })
      else {
        result.append(argument)
        continue
      }
      if isFlag(name) { refuse("The option \(name) takes no value.") }
      result += [name, ""]
    }
    if let end = arguments.firstIndex(of: "--") { result += arguments[end...] }
    guard isJSON else { return result }
    do { _ = try LarderTool.parseAsRoot(result) } catch {
      if LarderTool.exitCode(for: error) == Exit.usage { refuse(LarderTool.message(for: error)) }
    }
    return result
  }

  /// Prints the help or the version, if the arguments ask for it, and ends the process. The argument parser would not
  /// notice that nothing can be written.
  static func printHelp(_ arguments: [String]) {
    let words = arguments.prefix { $0 != "--" }
    guard words.count <= 1 || words.first == "help" || words.contains(where: isHelp) else { return }
    do {
      var command = try LarderTool.parseAsRoot(arguments)
      let kind = type(of: command)
      // The parser's command for --help, which throws the text.
      if String(describing: kind) == "HelpCommand" { try command.run() }
      // A command that only has others prints its help.
      guard !kind.configuration.subcommands.isEmpty else { return }
      Console.line(LarderTool.helpMessage(for: kind))
      LarderTool.exit()
    } catch {
      guard LarderTool.exitCode(for: error).isSuccess else { return }
      Console.line(LarderTool.fullMessage(for: error))
      LarderTool.exit()
    }
  }

  private static func isHelp(_ argument: String) -> Bool {
    ["--help", "-h", "-help", "--help-hidden", "--version"].contains(argument)
  }

  /// Whether errors are printed as JSON.
  static var isJSON: Bool {
    CommandLine.arguments.prefix { $0 != "--" }.contains("--json")
  }

  /// Ends the process because of a wrong command line.
  static func refuse(_ message: String) -> Never {
    Console.printUsageError(message, json: isJSON)
    LarderTool.exit(withError: Exit.usage)
  }

  private static func isFlag(_ name: String) -> Bool {
    guard
      let help = try? JSONDecoder().decode(
        ManualCommand.Help.self, from: Data(LarderTool._dumpHelp().utf8))
    else { return false }
    func has(_ command: ManualCommand.Command) -> Bool {
      (command.arguments ?? []).contains { argument in
        argument.kind == "flag"
          && (argument.names ?? []).contains { ($0.kind == "long" ? "--" : "-") + $0.name == name }
      } || (command.subcommands ?? []).contains(where: has)
    }
    func isOption(_ command: ManualCommand.Command) -> Bool {
      (command.arguments ?? []).contains { argument in
        argument.kind == "option"
          && (argument.names ?? []).contains { ($0.kind == "long" ? "--" : "-") + $0.name == name }
      } || (command.subcommands ?? []).contains(where: isOption)
    }
    return has(help.command) && !isOption(help.command)
  }
}
#endif
