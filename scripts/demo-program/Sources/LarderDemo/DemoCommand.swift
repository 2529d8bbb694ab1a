// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import Larder
import LarderTesting

/// `larder-demo`: several processes share the work of indexing real documents, and one is killed.
@main
struct DemoCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "larder-demo",
    abstract: "Four processes index real documents; one is killed.",
    discussion: """
      Each worker process needs the full-text index of all documents: it decompresses each one \
      with gzip, splits it into words, stems the words and counts them. The job runs three times: \
      without the cache, where each worker indexes every document; with an empty cache, where the \
      first worker that needs a document indexes it and the others get the result, and one worker \
      is killed with SIGKILL half-way; and after the kill, where fresh workers find every result. \
      The last table shows the time of each run and the saving.

      Documents that are not UTF-8 text are indexed without words. A run that computes a wrong \
      index, or computes a result twice without a kill, ends with exit status 1.

      EXAMPLES
        larder-demo
        larder-demo ~/src --files 5000
        larder-demo --store /var/tmp/demo && larder stat --store /var/tmp/demo
      """)

  @Argument(
    help: "The directory. (default: documentation, manual pages and headers of this machine)")
  var directory: String?

  @Option(
    help: ArgumentHelp(
      "Keep the store in this directory; entries of an earlier demo in it are removed first.",
      valueName: "path"))
  var store: String?

  @Option(help: ArgumentHelp("The maximum number of documents.", valueName: "count"))
  var files = 1500

  @Option(help: ArgumentHelp("The number of worker processes.", valueName: "count"))
  var workers = 4

  @Option(
    help: ArgumentHelp(
      "The seed of the workers' orders; an equal seed repeats them.", valueName: "number"))
  var seed: UInt64?

  @Flag(help: "Write the result as JSON.")
  var json = false

  @Option(help: .hidden) var workerList: String?
  @Flag(help: .hidden) var withoutCache = false

  func validate() throws {
    guard (2...32).contains(workers) else {
      throw ValidationError("--workers must be from 2 to 32: one is killed, others finish.")
    }
    guard files > 1 else { throw ValidationError("--files must be at least 2.") }
  }

  func run() async throws {
    if let workerList {
      return try await DemoWorker(
        list: workerList, store: withoutCache ? nil : store, seed: seed ?? 0
      ).run()
    }
    let selection = DocumentSelection(of: directory, maximumFiles: files)
    guard selection.documents.count > 1 else {
      throw ValidationError(
        "Below \(selection.place) there are fewer than two readable documents. Name another "
          + "directory.")
    }
    let report = try withTemporaryDirectory { (path) throws in
      // Control-C ends the workers too, since they are of the same group; the files remain.
      signal(SIGINT, SIG_IGN)
      let interrupt = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
      interrupt.setEventHandler {
        try? FileManager.default.removeItem(atPath: path)
        Foundation.exit(130)
      }
      interrupt.activate()
      return try demonstrate(selection, in: path)
    }
    if json {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
      print(String(decoding: try encoder.encode(report), as: UTF8.self))
    } else {
      print(report.text)
    }
    if !report.success { throw ExitCode(1) }
  }

  private func demonstrate(_ selection: DocumentSelection, in workshop: String) throws -> DemoReport
  {
    let path = store ?? workshop + "/store"
    let list = workshop + "/documents.json"
    try JSONEncoder().encode(selection.documents).write(to: URL(fileURLWithPath: list))
    let durability = try SharedStore.durability(ofStoreAt: path) ?? .cache
    let shared = try SharedStore(at: path, .init(durability: durability))
    defer { shared.close() }
    try shared.removeAll(in: DemoWorker.namespace)
    let seed = seed ?? UInt64.random(in: 0..<1_000_000)
    say(
      "The full-text index of \(selection.documents.count) documents "
        + "(\(selection.compressed) compressed, \(ByteCount(bytes: selection.bytes)))\n"
        + "  of \(selection.place)\n  in \(workers) processes, one store, seed \(seed)\n")

    func run(_ title: String, _ number: UInt64, killsAt: Int? = nil) throws -> DemoPass {
      say("\(title) …", terminator: "")
      var arguments = ["--worker-list", list, "--store", path]
      if number == 0 { arguments.append("--without-cache") }
      let pass = try DemoPass(
        workers: workers, arguments: arguments, seed: seed &+ number &* 104_729,
        documents: selection.documents.count, killsAt: killsAt)
      say(" \(DemoReport.hundredths(pass.seconds)) s")
      return pass
    }
    let without = try run("without the cache: each worker indexes every document", 0)
    let cold = try run(
      "with an empty cache: the workers share the results, one is killed", 1,
      killsAt: selection.documents.count / 2)
    let warm = try run("after the kill: fresh workers, the same cache", 2)

    let cache = PersistentCache<String, DocumentIndex>(
      storage: shared, namespace: DemoWorker.namespace)
    var stored = FullTextIndex()
    for document in selection.documents {
      if let index: DocumentIndex = try cache.value(forKey: document.key) { stored.add(index) }
    }
    let statistics = try shared.statistics()
    return DemoReport(
      selection: selection, without: without, cold: cold, warm: warm, stored: stored,
      entries: statistics.namespaces.first { $0.name == DemoWorker.namespace }?.entries ?? 0,
      bytes: statistics.bytes, findings: try shared.verify().filter { $0.severity == .error })
  }

  private func say(_ text: String, terminator: String = "\n") {
    if !json {
      print(text, terminator: terminator)
      fflush(nil)
    }
  }
}
