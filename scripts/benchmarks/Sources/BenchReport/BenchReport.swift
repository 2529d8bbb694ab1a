// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// `larder-bench-report JSON... --out DIRECTORY`: SVG pictures, and one page that needs no other
/// file, from what the suites wrote with --json; and the figures as a table of Markdown.
@main
struct BenchReport {
  static func main() {
    do {
      var inputs: [String] = []
      var directory: String?
      var rest = Array(CommandLine.arguments.dropFirst())
      while !rest.isEmpty {
        let argument = rest.removeFirst()
        switch argument {
        case "report": break
        case "--out":
          guard !rest.isEmpty else { throw ReportFailure("--out wants a directory.") }
          directory = rest.removeFirst()
        default: inputs.append(argument)
        }
      }
      guard let directory, !inputs.isEmpty else {
        throw ReportFailure("Say what to read and where to write: report JSON... --out DIRECTORY")
      }
      try FileManager.default.createDirectory(
        atPath: directory, withIntermediateDirectories: true)
      let page = Page(try inputs.flatMap(Line.read), directory: directory)
      try Data(try page.html().utf8).write(to: URL(fileURLWithPath: directory + "/index.html"))
      try Data(page.markdown().utf8).write(to: URL(fileURLWithPath: directory + "/figures.md"))
      print("\(directory)/index.html")
    } catch {
      FileHandle.standardError.write(Data("larder-bench-report: \(error)\n".utf8))
      exit(1)
    }
  }
}
