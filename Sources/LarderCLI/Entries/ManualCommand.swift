// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation

/// `larder manual`: the manual page, generated from the help of the commands.
struct ManualCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "manual",
    abstract: "Print the manual page in roff, for `man`.",
    discussion: """
      EXAMPLES
        larder manual > /usr/local/share/man/man1/larder.1
        larder manual | man -l -
      """)

  func run() throws {
    let help = try JSONDecoder().decode(Help.self, from: Data(LarderTool._dumpHelp().utf8))
    Console.write(ManualPage(help.command, version: LarderTool.configuration.version).text)
  }

  struct Help: Decodable { let command: Command }

  struct Command: Decodable {
    let commandName: String
    let abstract: String?
    let discussion: String?
    let shouldDisplay: Bool?
    let subcommands: [Command]?
    let arguments: [Argument]?
  }

  struct Argument: Decodable {
    struct Name: Decodable {
      let kind: String
      let name: String
    }
    let kind: String
    let shouldDisplay: Bool
    let isOptional: Bool
    let isRepeating: Bool
    let names: [Name]?
    let valueName: String?
    let defaultValue: String?
    let abstract: String?
  }
}

/// A page in roff, with the man macros.
struct ManualPage {
  private(set) var text = ""

  init(_ tool: ManualCommand.Command, version: String) {
    line(".TH LARDER 1 \"\" \"\(version)\" \"User Commands\"")
    line(".SH NAME")
    line("larder \\- \(escaped(tool.abstract ?? ""))")
    line(".SH SYNOPSIS")
    line(".B larder")
    line(".I command")
    line("[\\fIoptions\\fR]")
    line(".SH DESCRIPTION")
    write(tool.discussion)
    line(".SH COMMANDS")
    for command in tool.subcommands ?? [] where command.shouldDisplay != false {
      write(command, "larder")
    }
    line(".SH ENVIRONMENT")
    line(".TP\n.B LARDER_STORE\nThe directory of the store, unless --store is given.")
    line(".TP\n.B XDG_CACHE_HOME\nThe directory of larder/, the default store. Default: ~/.cache.")
    line(".TP\n.B PATH\nThe directories that memo and warm search for commands.")
    line(".TP\n.B NO_COLOR\nIf it is set and not empty, --color auto disables colours.")
    line(".TP\n.B COLUMNS\nThe width of tables on a terminal.")
  }

  private mutating func line(_ line: String) { text += line + "\n" }

  private mutating func write(_ command: ManualCommand.Command, _ parents: String) {
    // The argument parser adds this command.
    if command.commandName == "help" { return }
    let name = parents + " " + command.commandName
    line(".SS \"\(escaped(name))\"")
    line(escaped(command.abstract ?? ""))
    write(command.discussion)
    for argument in command.arguments ?? [] where argument.shouldDisplay {
      // These options are the same for all commands.
      if argument.names?.contains(where: { ["help", "version"].contains($0.name) }) == true {
        continue
      }
      line(".TP")
      line(escaped(title(argument), bold: true))
      var sentence = argument.abstract ?? ""
      if let value = argument.defaultValue, !sentence.contains("(default:") {
        sentence += " (default: \(value))"
      }
      line(escaped(sentence))
    }
    for child in command.subcommands ?? [] where child.shouldDisplay != false {
      write(child, name)
    }
  }

  private func title(_ argument: ManualCommand.Argument) -> String {
    let value = argument.valueName.map { "<\($0)>" } ?? ""
    guard let names = argument.names, !names.isEmpty else {
      return value + (argument.isRepeating ? " ..." : "")
    }
    let shown = names.map { ($0.kind == "long" ? "--" : "-") + $0.name }.joined(separator: ", ")
    return argument.kind == "option" ? shown + " " + value : shown
  }

  /// Writes paragraphs. Indented lines, and lines that follow a heading, are not filled.
  private mutating func write(_ discussion: String?) {
    guard let discussion, !discussion.isEmpty else { return }
    line(".PP")
    var isPlain = false
    for part in discussion.split(separator: "\n", omittingEmptySubsequences: false) {
      if part.isEmpty {
        if isPlain { line(".fi") }
        isPlain = false
        line(".PP")
        continue
      }
      let isIndented = part.hasPrefix("  ")
      if isIndented != isPlain { line(isIndented ? ".nf" : ".fi") }
      isPlain = isIndented
      line(escaped(String(part)))
    }
    if isPlain { line(".fi") }
  }

  private func hexadecimal(_ value: UInt32) -> String {
    let digits = String(value, radix: 16, uppercase: true)
    return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }

  private func escaped(_ text: String, bold: Bool = false) -> String {
    let marked = text.replacing("\\", with: "\\e").replacing("-", with: "\\-")
      .replacing("\"", with: "\\(dq").replacing("'", with: "\\(aq")
    // By code point: some versions of roff do not read UTF-8.
    let plain = String(
      decoding: marked.unicodeScalars.flatMap { scalar in
        scalar.isASCII ? Array("\(scalar)".utf8) : Array("\\[u\(hexadecimal(scalar.value))]".utf8)
      }, as: UTF8.self)
    if bold { return "\\fB\(plain)\\fR" }
    return plain.hasPrefix(".") ? "\\&" + plain : plain
  }
}
#endif
