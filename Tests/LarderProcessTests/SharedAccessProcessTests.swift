// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Read-write locks and semaphores between processes.
extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `Readers and a writer of several processes exclude each other, and kills release them`()
    throws
  {
    let ground = try StoreFixture()
    let lock = ground.store.readWriteLock("a")
    let readers = try (0..<2).map { _ in try ground.peer() }
    for reader in readers { #expect(try reader.ask("readlock a") == "holding") }
    try lock.withReadLock(timeout: .zero) { _ in }
    let error = #expect(throws: StoreError.self) { try lock.withWriteLock(timeout: .zero) { _ in } }
    #expect(error?.code == .lockTimeout)
    let writer = try ground.peer()
    try writer.send("writelock a")
    try eventually("the writer waits") { try ground.waiters("a") == 1 }
    // A later reader waits behind it.
    #expect(throws: StoreError.self) { try lock.withReadLock(timeout: .zero) { _ in } }
    for reader in readers { reader.kill() }
    #expect(try writer.nextLine() == "holding")
    #expect(throws: StoreError.self) { try lock.withReadLock(timeout: .zero) { _ in } }
    writer.kill()
    try lock.withReadLock(timeout: .seconds(600)) { _ in }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Processes share the permits of a semaphore, and a killed one returns its permits`() throws {
    let ground = try StoreFixture()
    let semaphore = ground.store.semaphore("a", permits: 2)
    let peers = try (0..<2).map { _ in try ground.peer() }
    for peer in peers { #expect(try peer.ask("permit a 2") == "holding") }
    let error = #expect(throws: StoreError.self) { try semaphore.withPermit(timeout: .zero) {} }
    #expect(error?.code == .lockTimeout && error?.pid == peers[0].processIdentifier)
    peers[1].kill()
    try semaphore.withPermit(timeout: .seconds(600)) {
      _ = #expect(throws: StoreError.self) {
        try ground.store.semaphore("a", permits: 3).withPermit(timeout: .zero) {}
      }
    }
    try peers[0].order("go")
    try peers[0].dismiss()
  }
}
