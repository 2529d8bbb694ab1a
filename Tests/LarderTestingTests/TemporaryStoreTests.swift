// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderTestSupport
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct TemporaryStoreTests {
  @Test func `A temporary store is empty, and is deleted with the files next to it`() throws {
    var temporary: TemporaryStore? = try TemporaryStore()
    let path = try #require(temporary).path
    let neighbour = try #require(temporary).appending("log")
    try TestFiles.write([1], to: neighbour)
    let other = try TemporaryStore()
    try temporary?.store.setBytes([1], forKey: "a")
    #expect(try other.store.bytes(forKey: "a") == nil)
    #expect(TestFiles.exists(path))
    temporary = nil
    #expect(!TestFiles.exists(path))
    #expect(!TestFiles.exists(neighbour))
  }

  @Test func `A child process finds the store by its path`() throws {
    let temporary = try TemporaryStore()
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("open \(temporary.path)").hasPrefix("opened "))
    #expect(try peer.ask("set 1 salt") == "ok")
    #expect(PersistentCache<Int, String>(storage: temporary.store)[1] == "salt")
    try temporary.verifyAndClose()
  }

  @Test func `Reopening keeps what was set and takes other options`() throws {
    let clock = ManualClock(milliseconds: 0)
    let temporary = try TemporaryStore(StoreOptions(clock: clock.storeClock))
    let first = temporary.store
    let cache = PersistentCache<String, Int>(storage: first)
    cache["behind"] = 7
    try cache.setValue(8, forKey: "expiring", expires: .after(.seconds(1)))
    let second = try temporary.reopen()
    #expect(second === temporary.store)
    #expect(first !== second)
    let again = PersistentCache<String, Int>(storage: second)
    #expect(again["behind"] == 7)
    #expect(again["expiring"] == 8)
    #expect(throws: StoreError.self) { try first.bytes(forKey: "behind") }
    clock.advance(by: .seconds(1))
    #expect(again["expiring"] == nil)
    let late = StoreOptions(clock: ManualClock(milliseconds: 0).storeClock)
    #expect(PersistentCache<String, Int>(storage: try temporary.reopen(late))["expiring"] == 8)
    #expect(PersistentCache<String, Int>(storage: try temporary.reopen())["expiring"] == 8)
  }

  @Test func `A valid store passes the final check, also when it was closed before`() throws {
    let temporary = try TemporaryStore(StoreOptions(durability: .durable))
    try temporary.store.setBytes([1], forKey: "a")
    try temporary.verifyAndClose()
    #expect(throws: StoreError.self) { try temporary.store.bytes(forKey: "a") }
    try temporary.verifyAndClose()
    #expect(try temporary.reopen().bytes(forKey: "a") == [1])
  }

  @Test func `A damaged store ends with its findings`() throws {
    let temporary = try TemporaryStore(StoreOptions(durability: .durable))
    let value = [UInt8](repeating: 0xAB, count: 1000)
    try temporary.store.setBytes(value, forKey: "a")
    temporary.store.close()
    let file = temporary.path + "/g-1/data.mdb"
    let bytes = try TestFiles.contents(of: file)
    var isDamaged = false
    for start in 0..<(bytes.count - 1000)
    where bytes[start] == 0xAB && bytes[start..<(start + 1000)].allSatisfy({ $0 == 0xAB }) {
      try TestFiles.overwrite([0], at: start + 500, in: file)
      isDamaged = true
    }
    #expect(isDamaged)
    let unsound = #expect(throws: TemporaryStore.VerificationFailure.self) {
      try temporary.verifyAndClose()
    }
    #expect(unsound?.findings.first?.severity == .error)
    #expect(unsound?.description.contains("checksum is wrong") == true)
    #expect(unsound?.description.contains(temporary.path) == true)
  }
}
