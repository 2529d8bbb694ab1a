// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderCoding
import LarderEngine

/// `larder verify`: checks a store's file, entries and books.
struct VerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify",
    abstract: "Check the whole store: its pages, every entry, its books.",
    discussion: """
      Prints one line for each finding and ends with 1 if one of them is an error; warnings concern \
      no value. Nothing is changed. Writers of other processes wait meanwhile, readers do not; \
      reading a gigabyte takes a second or two.

      EXAMPLE
        larder verify --store /var/tmp/app || larder clear --yes --store /var/tmp/app
      """)

  @OptionGroup var arguments: StoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openExisting()
      defer { store.close() }
      let findings = try store.verify()
      let errors = findings.count { $0.severity == .error }
      let statistics = try store.statistics()
      if arguments.json {
        let list = findings.map { finding in
          CBORValue.object([
            ("severity", .text(finding.severity.rawValue)), ("place", .text(finding.place)),
            ("message", .text(finding.message)),
          ])
        }
        Console.json(
          .object([
            ("path", .text(store.path)), ("sound", .boolean(findings.isEmpty)),
            ("errors", CBORValue(errors)), ("warnings", CBORValue(findings.count - errors)),
            ("entries", CBORValue(statistics.entries)), ("findings", .array(list)),
          ]))
      } else {
        for finding in findings { Console.line("\(finding)") }
        let checked =
          "\(Columns.count(statistics.entries, "entry", "entries")), "
          + "\(ByteCount(bytes: statistics.bytes)), in a file of "
          + "\(ByteCount(bytes: statistics.fileBytes))"
        if findings.isEmpty {
          Console.line("Sound: \(checked).")
        } else {
          Console.line(
            "\(Columns.count(errors, "error", "errors")) and "
              + "\(Columns.count(findings.count - errors, "warning", "warnings")): \(checked).")
        }
      }
      if errors > 0 { throw Exit.negative }
    }
  }
}
