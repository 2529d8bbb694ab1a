// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Switches to new files that another process holds up, or a read of this one.
extension Processes {
  private typealias Outcome = Result<[UInt8]?, any Error>

  /// Reads a key in several threads.
  private func read(_ store: SharedStore, threads: Int) -> [Outcome] {
    (0..<threads).map { _ in
      JoinableThread { Outcome { try store.bytes(forKey: 1) } }
    }.map { $0.join() }
  }

  /// Waits until reads succeed: the limit of these stores is short, and a busy machine may exceed it.
  private func awaitReads(_ store: SharedStore) throws {
    try eventually("reads succeed") {
      try read(store, threads: 4).allSatisfy { outcome in
        do {
          return try outcome.get() == [1]
        } catch let error as StoreError where error.code == .openTimeout {
          return false
        }
      }
    }
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `Threads that need new files wait for a stopped process together, and name it`() throws {
    let ground = try StoreFixture(
      StoreOptions(openTimeout: .seconds(2), writeTimeout: .seconds(5)))
    try ground.store.setBytes([1], forKey: 1)
    let stopped = try ground.peer(environment: ["LARDER_FAULTS": "condemnMarked:stop@1"])
    try stopped.send("compact")
    try stopped.waitUntilStopped()
    let start = ContinuousClock.now
    for outcome in read(ground.store, threads: 150) {
      let error = #expect(throws: StoreError.self) { try outcome.get() }
      #expect(error?.code == .openTimeout && error?.pid == stopped.processIdentifier, "\(outcome)")
    }
    // One after the other they would take 300 s.
    #expect(ContinuousClock.now - start < .seconds(250))
    // Writes fail at their limits, and those without a limit are kept.
    for key in 10..<20 { ground.numbers[key] = "kept" }
    let writers = (20..<28).map { key in
      JoinableThread { Result { try ground.numbers.setValue("x", forKey: key) } }
    }
    for writer in writers {
      let error = #expect(throws: StoreError.self) { try writer.join().get() }
      #expect(error?.code == .openTimeout || error?.code == .writerStalled, "\(error as Any)")
    }
    stopped.continue()
    try stopped.expect("ok")
    try awaitReads(ground.store)
    try ground.store.sync()
    for key in 10..<20 { #expect(try stopped.ask("get \(key)") == "value kept") }
    #expect(try ground.store.verify() == [])
    try stopped.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A read that keeps old files open makes other reads fail at their limit, not wait for ever`()
    throws
  {
    let ground = try StoreFixture(StoreOptions(openTimeout: .milliseconds(300)))
    try ground.store.setBytes([1], forKey: 1)
    let (hasBegun, mayEnd) = (Event(), Event())
    let reader = JoinableThread { [store = ground.store] in
      Result {
        try store.read { snapshot in
          hasBegun.set()
          // As a closure that waits for another use of the store.
          mayEnd.wait(nanoseconds: 600_000_000_000)
          return try snapshot.bytes(forKey: 1)
        }
      }
    }
    #expect(hasBegun.wait(nanoseconds: 600_000_000_000))
    let peer = try ground.peer()
    #expect(try peer.ask("compact") == "ok")
    for outcome in read(ground.store, threads: 4) {
      let error = #expect(throws: StoreError.self) { try outcome.get() }
      #expect(error?.code == .openTimeout && error?.pid == ProcessIdentity.pid, "\(outcome)")
    }
    mayEnd.set()
    // It has the snapshot from before the compaction, or an error that says that it lost it.
    do {
      #expect(try reader.join().get() == [1])
    } catch let error as StoreError {
      #expect([.generationReplacedDuringRead, .openTimeout].contains(error.code), "\(error)")
    }
    try awaitReads(ground.store)
    #expect(try ground.store.verify() == [])
    try peer.dismiss()
  }
}
