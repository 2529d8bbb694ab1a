// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import LarderTesting
import Testing

/// The output of the compiler for a source with macros, with the modules and the plugin of this build.
struct MacroCompiler {
  /// The generated code, in the order of the compiler.
  private(set) var expansions: [String] = []
  /// The errors and warnings of macros as "line:column: message", each followed by its fix as "name: old becomes new".
  private(set) var errors: [String] = []
  /// All errors and warnings, without fixes; those in generated code as "expansion: message".
  private(set) var allErrors: [String] = []

  /// Compiles a source, whose first line is 1.
  ///
  /// - Parameter options: Further options of the compiler.
  init(_ source: String, options: [String] = []) throws {
    let plugin = try TestExecutable("LarderSchemaMacros-tool").path
    let build = plugin.split(separator: "/").dropLast().reduce("") { $0 + "/" + $1 }
    let root = #filePath.split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 }
    let directory = try TemporaryDirectory()
    let file = directory.appending("Source.swift")
    try TestFiles.write(
      Array(("import Foundation; import LarderSchema\n" + source).utf8), to: file)
    let outcome = try ChildProcess.run(
      "swiftc",
      [
        "-typecheck", "-Xfrontend", "-dump-macro-expansions", "-diagnostic-style", "llvm",
        "-I", build + "/Modules", "-load-plugin-executable", plugin + "#LarderSchemaMacros",
        "-Xcc", "-fmodule-map-file=\(root)/Modules/CLarderLMDB/module.modulemap",
        // Of all tests: the first one fills it.
        "-module-cache-path", build + "/ModuleCache",
      ] + options + [file])
    let lines = (outcome.output + "\n" + outcome.standardError)
      .split(separator: "\n", omittingEmptySubsequences: false)
    readExpansions(lines)
    readErrors(lines)
    // An error without a place in the source, as that of a module that is not found.
    if !outcome.status.isSuccess, allErrors.isEmpty { allErrors = [outcome.standardError] }
  }

  /// A buffer is its name, a rule, the code, and a rule.
  private mutating func readExpansions(_ lines: [Substring]) {
    for (index, line) in lines.enumerated() where line.hasPrefix("@__swiftmacro_") {
      let code = lines.dropFirst(index + 2).prefix { !$0.hasPrefix("------") }
      if code.contains(where: { !$0.isEmpty }) {
        expansions.append(code.joined(separator: "\n"))
      }
    }
  }

  /// A message is followed by the line of the source, a mark below it, and the text of a fix.
  private mutating func readErrors(_ lines: [Substring]) {
    var isOfMacro = false
    for (index, line) in lines.enumerated() {
      if let match = line.wholeMatch(of: /.*@__swiftmacro_[^:]*:\d+:\d+: (error|warning): (.*)/) {
        isOfMacro = false
        allErrors.append("expansion: \(match.output.2)")
        continue
      }
      guard
        let match = line.wholeMatch(
          of: /.*Source\.swift:(\d+):(\d+): (error|note|warning): (.*?)( \(from macro .*\))?/)
      else { continue }
      let (message, number) = (match.output.4, Int(match.output.1)! - 1)
      switch match.output.3 {
      case "error", "warning":
        isOfMacro = match.output.5 != nil
        allErrors.append("\(number):\(match.output.2): \(message)")
        if isOfMacro { errors.append(allErrors.last!) }
      case "note" where isOfMacro && lines.indices.contains(index + 3):
        // The marked part of the source is replaced by the text; a note without a fix has none.
        let (marks, text) = (lines[index + 2], lines[index + 3].drop { $0 == " " })
        guard !text.contains("Source.swift:") else { continue }
        let mark = marks.drop { $0 == " " }
        let old = lines[index + 1].dropFirst(marks.count - mark.count).prefix(mark.count)
        errors.append("\(message): \(old) becomes \(text)")
      default: break
      }
    }
  }
}
#endif
