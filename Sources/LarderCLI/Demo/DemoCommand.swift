// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import Larder

/// `larder demo`: several processes share the work of indexing real files, and one is killed.
struct DemoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Four processes index real files over one store; one is killed half-way.",
    discussion: """
      Each worker process walks all text files below the directory in an order of its own and asks \
      a shared cache for each file's word counts: whoever comes first computes them, everybody else \
      gets them. Half-way one worker is killed with SIGKILL; the rest finish. Then fresh processes \
      walk the files again and find everything. At the end the index is compared with one that a \
      single process makes without any cache; the demo ends with 1 if anything differs.

      Left-out files (compressed, larger than 4 MiB, beyond a limit) are counted in the output; \
      files that are not UTF-8 text are read and indexed as having no words.

      EXAMPLES
        larder demo
        larder demo ~/src --files 20000 --megabytes 200
        larder demo --store /var/tmp/demo && larder stat --store /var/tmp/demo
      """)

  @Argument(help: "The directory. (default: /usr/share/doc, else /usr/include, else this package)")
  var directory: String?

  @Option(
    help: ArgumentHelp(
      "Keep the store in this directory; entries of an earlier demo in it are removed first.",
      valueName: "path"))
  var store: String?

  @Option(help: ArgumentHelp("At most this many files.", valueName: "count"))
  var files = 4000

  @Option(help: ArgumentHelp("At most this much text, in MiB.", valueName: "count"))
  var megabytes = 64

  @Option(help: ArgumentHelp("How many worker processes.", valueName: "count"))
  var workers = 4

  @Option(help: ArgumentHelp("Repeats the orders of an earlier run.", valueName: "number"))
  var seed: UInt64?

  @Flag(help: "Write the result as JSON.")
  var json = false

  func validate() throws {
    guard (2...32).contains(workers) else {
      throw ValidationError("--workers must be from 2 to 32: one is killed, others finish.")
    }
    guard files > 0, megabytes > 0 else {
      throw ValidationError("--files and --megabytes must be at least 1.")
    }
  }

  func run() throws {
    try Console.reporting(json: json) {
      let survey = try survey()
      let manager = FileManager.default
      let workshop = manager.temporaryDirectory
        .appendingPathComponent("larder-demo-\(UUID().uuidString)", isDirectory: true)
      try manager.createDirectory(
        at: workshop, withIntermediateDirectories: true,
        attributes: [.posixPermissions: NSNumber(value: 0o700)])
      // Control-C leaves nothing behind; the workers end when nobody listens to them any more.
      signal(SIGINT, SIG_IGN)
      let interrupt = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
      interrupt.setEventHandler {
        try? manager.removeItem(at: workshop)
        Foundation.exit(130)
      }
      interrupt.activate()
      defer { try? manager.removeItem(at: workshop) }
      let report = try demonstrate(survey, in: workshop)
      if json {
        Console.json(report.json)
      } else {
        Console.write(report.text)
      }
      if !report.isSuccess { throw Exit.negative }
    }
  }

  private func survey() throws -> DemoFileSelection {
    guard let directory else {
      return .ofThisMachine(maximumFiles: files, maximumBytes: megabytes << 20)
    }
    let path = URL(fileURLWithPath: directory).standardizedFileURL.path
    let survey = DemoFileSelection(
      of: path, because: "as asked for", maximumFiles: files, maximumBytes: megabytes << 20)
    guard survey.files.count >= 2 else {
      throw ToolError.usage(
        "Below \(path) there are fewer than two readable files that are not compressed. Name "
          + "another directory.")
    }
    return survey
  }

  private func demonstrate(_ survey: DemoFileSelection, in workshop: URL) throws -> DemoReport {
    let path = store ?? workshop.appendingPathComponent("store").path
    let seed = seed ?? UInt64.random(in: 0..<1_000_000)
    let list = workshop.appendingPathComponent("files.cbor")
    try Data(CBORCodec().encode(survey.files)).write(to: list)
    let fileList = DemoFileList(path: list.path, count: survey.files.count)

    let durability = try SharedStore.durability(ofStoreAt: path) ?? .cache
    let shared = try SharedStore(at: path, .init(durability: durability))
    defer { shared.close() }
    let name = DemoWorkerCommand.namespace
    try shared.removeAll(in: name)
    let progress = DemoProgress(isSilent: json)
    progress.introduce(survey, store: path, workers: workers, seed: seed)

    func pass(_ title: String, seed: UInt64, killsAt: Int?) throws -> DemoPass {
      let before = try shared.statistics()
      let crew = try DemoWorkers(
        count: workers, store: path, files: fileList, seed: seed, killsAt: killsAt)
      defer { crew.abandon() }
      try crew.waitUntilReady()
      let start = ContinuousClock.now
      let tally = try crew.run { progress.show(title, $0, since: start) }
      let seconds = start.duration(to: .now).seconds
      let pass = DemoPass(
        title: title, tally: tally, seconds: seconds, before: before,
        after: try shared.statistics(),
        failures: tally.workers.indices.map { crew.failure(of: $0) })
      progress.conclude(pass)
      return pass
    }
    let half = survey.files.count / 2
    let cold = try pass("cold", seed: seed, killsAt: half)
    let warm = try pass("warm", seed: seed &+ 104_729, killsAt: nil)

    progress.announce("plain: one process, no cache, for comparison")
    let start = ContinuousClock.now
    var plain = WordIndex()
    var fresh: [String: FileIndex] = [:]
    for file in survey.files {
      guard let index = try? file.index() else { continue }
      plain.add(index)
      fresh[file.key] = index
    }
    let seconds = start.duration(to: .now).seconds

    progress.announce("check: comparing, and verifying the store")
    let cache = PersistentCache<String, FileIndex>(storage: shared, namespace: name)
    var stored = WordIndex()
    var differing = 0
    for file in survey.files {
      guard let index: FileIndex = try cache.value(forKey: file.key) else { continue }
      stored.add(index)
      if index != fresh[file.key] { differing += 1 }
    }
    return DemoReport(
      survey: survey, workers: workers, cold: cold, warm: warm, plain: plain, stored: stored,
      differing: differing, plainSeconds: seconds, statistics: try shared.statistics(),
      entries: try shared.statistics().namespaces.first { $0.name == name }?.entries ?? 0,
      findings: try shared.verify())
  }
}

extension Duration {
  var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
