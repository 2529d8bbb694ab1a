// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import Larder
import LarderCoding
import LarderEngine

/// `larder increment`: adds to a counter, exactly once.
struct IncrementCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "increment",
    abstract: "Add to a counter and print its value.",
    discussion: """
      The counter is a 64-bit integer, the one of `cache.increment(forKey:by:)` in programs. No \
      increment of any process is lost. A key without an entry counts from zero: also one whose \
      entry was evicted, so pin a counter that must last. --expires is the lifetime of a new \
      counter, and a counter that exists keeps its own.

      EXAMPLES
        larder increment visits
        larder increment quota --by -1 --namespace limits
        larder increment requests:7 --expires 1h
      """)

  @Option(
    name: .long, parsing: .unconditional,
    help: ArgumentHelp("The number to add, which may be negative.", valueName: "n"))
  var by: Int64 = 1

  @Option(
    name: .long,
    help: ArgumentHelp("The lifetime of a new counter: 90s, 10m, 1h.", valueName: "time"),
    transform: Timestamp.duration)
  var expires: Duration?

  @Flag(name: .long, help: "Never evict a new counter.")
  var pin = false

  @OptionGroup var key: KeyArguments

  @OptionGroup var arguments: StoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let count: @Sendable (SharedStore) throws -> Int64
      switch key.keyType.tag {
      case .text: count = counter(key.key)
      case .integer:
        guard let number = Int(key.key) else { throw ToolError.usage("The key is no integer.") }
        count = counter(number)
      case .uuid:
        guard let uuid = UUID(uuidString: key.key) else {
          throw ToolError.usage("The key is no UUID.")
        }
        count = counter(uuid)
      default: throw ToolError.usage("Counters have keys of the types text, integer and uuid.")
      }
      let store = try arguments.openOrCreate()
      defer { store.close() }
      let value = try count(store)
      guard arguments.json else { return Console.line("\(value)") }
      Console.json(.object(key.fields + [("value", .init(Int(value)))]))
    }
  }

  private func counter<Key: CacheKey>(_ key: Key) -> @Sendable (SharedStore) throws -> Int64 {
    { [by, expires, pin, namespace = self.key.namespace] store in
      try PersistentCache<Key, Int64>(storage: store, namespace: namespace).increment(
        forKey: key, by: by, expires: expires.map { .after($0) } ?? .never, pinned: pin)
    }
  }
}
#endif
