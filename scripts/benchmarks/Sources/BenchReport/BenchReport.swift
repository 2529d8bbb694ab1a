// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// `larder-bench-report JSON... [--out DIRECTORY] [--markdown] [--readme FILE]`: from what the suites
/// wrote with --json, SVG pictures and one page that needs no other file; a summary in Markdown; the
/// same in an article, with the main pictures in the article's directory.
@main
struct BenchReport {
  static func main() {
    do {
      try run(Array(CommandLine.arguments.dropFirst()))
    } catch {
      FileHandle.standardError.write(Data("larder-bench-report: \(error)\n".utf8))
      exit(1)
    }
  }

  private static func run(_ arguments: [String]) throws {
    var inputs: [String] = []
    var directory: String?
    var readme: String?
    var printsMarkdown = false
    var rest = arguments
    while !rest.isEmpty {
      let argument = rest.removeFirst()
      switch argument {
      case "report": break
      case "--markdown": printsMarkdown = true
      case "--out", "--readme":
        guard !rest.isEmpty else { throw ReportFailure("\(argument) wants a path.") }
        if argument == "--out" {
          directory = rest.removeFirst()
        } else {
          readme = rest.removeFirst()
        }
      default:
        guard !argument.hasPrefix("--") else {
          throw ReportFailure("There is no option \(argument).")
        }
        inputs.append(argument)
      }
    }
    guard !inputs.isEmpty, directory != nil || readme != nil || printsMarkdown else {
      throw ReportFailure(
        "Say what to read and what to make: report JSON... [--out DIRECTORY] [--markdown] [--readme]"
      )
    }
    let lines = Line.latest(try inputs.map(Line.read))
    if let directory {
      try make(directory)
      let page = Page(lines, directory: directory)
      try Data(try page.html().utf8).write(to: URL(fileURLWithPath: directory + "/index.html"))
      print("\(directory)/index.html")
    }
    guard readme != nil || printsMarkdown else { return }
    let main = Charts(lines: lines).main
    let text = try Summary(lines: lines).markdown(main)
    if printsMarkdown { print(text) }
    guard let readme else { return }
    let catalog = URL(fileURLWithPath: readme).deletingLastPathComponent().path
    for one in main {
      try Data(one.picture.svg.utf8).write(
        to: URL(fileURLWithPath: "\(catalog)/\(one.name).svg"))
    }
    try Readme.rewrite(readme, with: text)
    print(readme)
  }

  private static func make(_ directory: String) throws {
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
  }
}
