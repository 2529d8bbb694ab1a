// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// FORK WITHOUT EXEC
//
//   fork             forks; the child uses the store in every way there is
//   fork gate        the same while this process holds the store's gate
//   fork lease K     the same from within the computation of K
//   fork lock NAME   the same while this process holds a lock
//   fork other PATH  forks; the child opens a store that its parent never had -> forked TEXT, of the error
//                    -> forked CODE CODE …, what the child got
//   fork storm N     forks N children, while threads read, write and compute
//                    -> stormed COUNT OTHERS…, how many children got nothing but the error, and
//                       how each of the others ended
//
// The child outlives its parent, with all it has inherited, until its standard input ends. The
// parent does nothing any more: it is there to be killed.

import Larder
import LarderEngine
import LarderSystem
import LarderTesting

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension Peer {
  func forked(_ words: [Substring]) throws -> String {
    let (store, numbers) = (try store, try numbers)
    switch words.first {
    case "storm": return try ForkStorm(store, numbers).run(children: number(words[1]))
    case "lease":
      let key = try number(words[1])
      Task.detached {
        try await numbers.value(forKey: key) {
          try ForkedChild.leave(store, numbers)
          while true { pause() }
        }
      }
    case "lock":
      try store.lock(String(words[1])).withLock { _ in
        try ForkedChild.leave(store, numbers)
        while true { pause() }
      }
    case "other":
      try ForkedChild.leave { [ForkedChild.text { _ = try SharedStore(at: String(words[1])) }] }
    case "gate":
      let gate = try OpenLock.enter(store.core.directory, timeout: .seconds(600))
      try ForkedChild.leave(store, numbers)
      withExtendedLifetime(gate) { while true { pause() } }
    default:
      try ForkedChild.leave(store, numbers)
    }
    while true { pause() }
  }
}

enum ForkedChild {
  static func leave(_ store: SharedStore, _ numbers: PersistentCache<Int, String>) throws {
    try leave { use(store, numbers) }
  }

  /// Forks; the child tells the parent's parent what a closure returns, and waits.
  static func leave(_ uses: () -> [String]) throws {
    #if os(Linux)
    let child = fork()
    if child < 0 { throw Peer.Refusal(description: "fork failed") }
    guard child == 0 else { return }
    let codes = uses()
    ParentProcess.send("forked \(codes.joined(separator: " "))")
    var byte: UInt8 = 0
    while unsafe read(0, &byte, 1) > 0 {}
    _exit(0)
    #else
    throw Peer.Refusal(description: "Swift has no fork on this system")
    #endif
  }

  static func use(
    _ store: SharedStore, _ numbers: PersistentCache<Int, String>
  ) -> [String] {
    let uses: [() throws -> Void] = [
      // The parent has it in memory.
      { _ = try numbers.value(forKey: 1) },
      { _ = try numbers.value(forKey: 1_000_000) },
      { try numbers.setValue("of the child", forKey: 1) },
      { _ = try store.bytes(forKey: 1) },
      { try store.setBytes([1], forKey: 1) },
      { try store.write { try $0.setBytes([1], forKey: 1) } },
      { try store.removeAll() },
      { try store.sync() },
      { _ = try store.statistics() },
      { _ = try SharedStore(at: store.path) },
      { _ = try SharedStore(at: store.path + "-of-the-child") },
      { try store.lock("child").withLock { _ in } },
    ]
    return uses.map { code(of: $0) }
  }

  static func text(_ use: () throws -> Void) -> String {
    do {
      try use()
      return "fine"
    } catch {
      return (error as? StoreError)?.message ?? "\(error)"
    }
  }

  static func code(of use: () throws -> Void) -> String {
    do {
      try use()
      return "fine"
    } catch {
      return (error as? StoreError)?.code.description ?? "\(error)"
    }
  }
}
