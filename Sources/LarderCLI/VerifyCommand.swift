// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine
import LarderRecovery

/// `larder verify`: checks the file, the entries and the totals of a store.
struct VerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify",
    abstract: "Check the whole store: its pages, every entry, its totals.",
    discussion: """
      Of a relaxed or durable store also the log, as it is read after a crash of the system. \
      Prints one line for each finding, the most severe first, and changes nothing: a cache that \
      a program would start empty stays as it is. Other processes read and write without waiting; \
      the file may grow by their writes. Reading a gigabyte takes a second or two.

      The files of a store that is too damaged to be opened are checked directly; `larder repair` \
      salvages the readable data.

      EXIT STATUS
        0   valid, or warnings only: no value is affected
        1   an error: an entry or the file is damaged
        2   there is no store
        70  the check failed

      EXAMPLES
        larder verify /var/tmp/app
        larder verify /var/lib/app || larder repair /var/lib/app --dry-run
      """)

  @Argument(help: "The store's directory; the same as --store.")
  var path: String?

  @OptionGroup var arguments: StoreArguments

  func validate() throws { try arguments.refuse(second: path) }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let place = arguments.at(path)
      var contents = Contents()
      var findings: [StoreFinding]
      do {
        let store = try place.openForReading()
        defer { store.close() }
        findings = try store.verify { Progress.show($0) }
        Progress.clear()
        // What is damaged may not be countable.
        do { contents = try Contents(of: store) } catch  where !findings.isEmpty {}
      } catch let error as StoreError where error.code == .needsRecovery {
        // What the next opening restores is checked; it is damaged, or nothing is wrong.
        findings = try SharedStore.findings(at: place.path)
      } catch let error as StoreError where error.code == .damaged {
        // The reason that the store cannot be opened is a finding too.
        let cause = StoreFinding(opening: error)
        do { findings = [cause] + (try SharedStore.findings(at: place.path)) } catch {
          // Another process has opened it, or a copy has no room: the cause stays, and the rest is not checked.
          let error = StoreError(wrapping: error, during: "verify", path: place.path)
          findings = [cause, StoreFinding(unchecked: error)]
        }
      }
      let errors = findings.count { $0.severity == .error }
      if arguments.json {
        Console.json(
          .object([
            ("path", .text(place.path)), ("sound", .boolean(findings.isEmpty)),
            ("errors", CBORValue(errors)), ("warnings", CBORValue(findings.count - errors)),
            ("entries", contents.entries.map { CBORValue($0) } ?? .null),
            ("objects", contents.objects.map { CBORValue($0) } ?? .null),
            ("findings", .array(findings.map(\.json))),
          ]))
      } else {
        for finding in findings { Console.line("\(finding)") }
        let count =
          "\(TextLayout.count(errors, "error", "errors")) and "
          + "\(TextLayout.count(findings.count - errors, "warning", "warnings"))"
        Console.line(findings.isEmpty ? "Valid\(contents.text)." : "\(count)\(contents.text).")
      }
      if errors > 0 { throw Exit.negative }
    }
  }
}

extension VerifyCommand {
  /// The contents of a store, as far as it could be opened.
  private struct Contents {
    var entries: Int?
    var objects: Int?
    var text = ""

    init() {}

    init(of store: SharedStore) throws {
      let statistics = try store.statistics()
      let types = try DynamicObjects(store).summary().types
      let count = types.reduce(0) { $0 + Int(clamping: $1.books.count) }
      (entries, objects) = (statistics.entries, count)
      text =
        ": \(TextLayout.count(statistics.entries, "entry", "entries")), "
        + (types.isEmpty ? "" : "\(TextLayout.count(count, "object", "objects")), ")
        + "\(ByteCount(bytes: statistics.bytes)), in a file of "
        + "\(ByteCount(bytes: statistics.fileBytes))"
    }
  }
}

extension StoreFinding {
  var json: CBORValue {
    .object([
      ("severity", .text(severity.rawValue)), ("place", .text(place)), ("message", .text(message)),
    ])
  }
}

/// The progress of a long operation: one line on a terminal, removed at the end.
enum Progress {
  static func show(_ progress: StoreProgress) {
    guard Console.isErrorTerminal, progress.total >= 100_000 else { return }
    Console.printError(
      "\r\(progress.phase.rawValue): \(TextLayout.grouped(progress.done)) of "
        + "\(TextLayout.grouped(progress.total))    ", terminator: "")
  }

  static func clear() {
    if Console.isErrorTerminal { Console.printError("\r\u{1B}[K", terminator: "") }
  }
}
#endif
