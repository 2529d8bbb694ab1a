// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import Larder
import Synchronization

// WHAT A WORKER SAYS, one line each, to the process that started it:
//
//   ready              it knows its files; it opens the store when it is told `go`
//   begin <file>       its closure runs: nobody had the result, and nobody else computes it
//   end <file>         that result is committed
//   found <count>      so many results so far came from others
//   failed <file>      the file could not be read
//   done <digest> <files>   its own index of everything, complete

/// A worker of the demo. It is not for people, so it is not in the help.
struct DemoWorkerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "demo-worker", shouldDisplay: false)

  /// The namespace the demo uses in a store.
  static let namespace = "demo word index"

  @Option var store: String
  @Option var files: String
  @Option var seed: UInt64

  func run() async throws {
    try await Console.reporting(json: false) {
      let list = Array(try Data(contentsOf: URL(fileURLWithPath: files)))
      let files = try CBORCodec().decode([DemoFile].self, from: list)
      var generator = DemoRandomGenerator(seed: seed)
      let order = files.indices.shuffled(using: &generator)
      Console.line("ready")
      guard readLine() == "go" else { return }
      try await work(files, in: order)
    }
  }

  private func work(_ files: [DemoFile], in order: [Int]) async throws {
    let durability = try SharedStore.durability(ofStoreAt: store) ?? .cache
    let opened = try SharedStore(
      at: store,
      .init(
        durability: durability, onError: { Console.printError("worker: \($0)") },
        onEvent: { Console.printError("worker: \($0)") }))
    let cache = PersistentCache<String, FileIndex>(storage: opened, namespace: Self.namespace)
    var index = WordIndex()
    var found = 0
    for number in order {
      let file = files[number]
      let computed = Atomic(false)
      do {
        // The whole demo is this call: one process of all computes, the others get its result.
        let result = try await cache.value(forKey: file.key) {
          Console.line("begin \(number)")
          computed.store(true, ordering: .relaxed)
          return try file.index()
        }
        index.add(result)
      } catch let error as CocoaError {
        Console.printError("worker: \(file.path): \(error.localizedDescription)")
        Console.line("failed \(number)")
        continue
      }
      if computed.load(ordering: .relaxed) {
        Console.line("end \(number)")
      } else {
        found += 1
        Console.line("found \(found)")
      }
    }
    opened.close()
    Console.line("done \(index.digest) \(index.texts + index.notTexts)")
  }
}

/// A random order that can be had again (SplitMix64).
struct DemoRandomGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var word = state
    word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
    word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
    return word ^ (word >> 31)
  }
}
