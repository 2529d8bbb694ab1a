// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// `larder-tool-bench tool [--json FILE] [--quick] [--work DIRECTORY] [FIGURE...]`
///
/// A program of its own: it drives the tool from outside and links nothing of Larder. The files it
/// shares with `larder-bench` are links.
@main
struct ToolBench {
  static func main() {
    do {
      try run(Array(CommandLine.arguments.dropFirst()))
    } catch {
      FileHandle.standardError.write(Data("larder-tool-bench: \(error)\n".utf8))
      exit(1)
    }
  }

  private static func run(_ arguments: [String]) throws {
    guard let tool = ProcessInfo.processInfo.environment["LARDER_BENCH_TOOL"] else {
      throw BenchFailure("Use scripts/bench tool, which builds the tool as it is installed.")
    }
    var json: String?
    var work: String?
    var isQuick = false
    var wanted: [String] = []
    var rest = arguments
    while !rest.isEmpty {
      let argument = rest.removeFirst()
      switch argument {
      case "tool": break
      case "--quick": isQuick = true
      case "--json", "--work":
        guard !rest.isEmpty else { throw BenchFailure("\(argument) wants a path.") }
        if argument == "--json" { json = rest.removeFirst() } else { work = rest.removeFirst() }
      default:
        guard argument.hasPrefix("tool.") else {
          throw BenchFailure("There is no figure or option \(argument).")
        }
        wanted.append(argument)
      }
    }
    print(Machine.description + "\n")
    let directory = try Files.fresh(in: work)
    defer { Files.remove(directory) }
    let figures = ToolFigures(tool: tool, directory: directory, isQuick: isQuick)
    var results: [Figure] = []
    var failures: [String] = []
    var lines: [String] = []
    print(Figure.heading)
    for (ids, body) in figures.all
    where wanted.isEmpty || ids.contains(where: { id in wanted.contains { id.hasPrefix($0) } }) {
      do {
        for figure in try body() {
          print(figure.row)
          results.append(figure)
        }
      } catch {
        // The others are measured all the same.
        print("FAILED: \(ids[0]): \(error)")
        failures.append(ids[0])
        lines.append(try Failure.json(ids[0], error))
      }
    }
    guard !results.isEmpty || !failures.isEmpty else {
      throw BenchFailure("No figure was selected.")
    }
    if let json {
      lines = try results.map { try $0.json() } + [try Machine.json(isQuick: isQuick)] + lines
      let text = lines.map { $0 + "\n" }.joined()
      try Data(text.utf8).write(to: URL(fileURLWithPath: json))
    }
    let missed = results.filter { !$0.isMet }
    print(
      missed.isEmpty
        ? "\nAll \(results.count) bars are met."
        : "\n\(missed.count) of \(results.count) bars are not met: "
          + missed.map(\.id).joined(separator: ", "))
    guard failures.isEmpty else {
      throw BenchFailure("These failed: " + failures.joined(separator: ", ") + ".")
    }
  }
}
